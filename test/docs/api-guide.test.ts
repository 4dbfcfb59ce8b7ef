// Checks that the examples of docs/api.md and the README work as written, that the documents agree with the code and with
// each other, and that packages/server/docs/start-your-own.md leads to a service.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import t from 'tap';
import { startCuttingProxy } from '../../packages/server/test/support/cutting-proxy.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { startOther } from '../../packages/server/test/support/other-service.js';
import { startServer } from '../../packages/server/test/support/processes.js';
import { startListening } from '../../packages/server/test/support/service.js';
import { skipFor } from '../../packages/server/test/support/skip.js';

const run = promisify(execFile);
const root = new URL('../..', import.meta.url).pathname;
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const guide = read('docs/api.md');
const manifest = JSON.parse(read('package.json')) as {
  version: string;
  engines: { node: string };
  scripts: Record<string, string>;
};
/** The documents that describe the present; CHANGELOG.md also describes the past. */
const documents = [
  'README.md',
  'CONTRIBUTING.md',
  'DESIGN.md',
  'SECURITY.md',
  'packages/client/README.md',
  'packages/server/README.md',
  'packages/server/docs/contract.md',
  'packages/server/docs/recipes.md',
  'packages/server/docs/login.md',
  'packages/server/docs/own-database.md',
  ...readdirSync(join(root, 'docs'))
    // clients.md names files that its readers write, like start-your-own.md.
    .filter((name) => name.endsWith('.md') && name !== 'clients.md')
    .map((name) => `docs/${name}`),
].map((path) => ({ path, text: read(path).replace(/\s+/g, ' ') }));
/** Returns the first group of every match in the documents, without repetitions. */
const found = (pattern: RegExp) => [
  ...new Set(documents.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, match = '']) => match))),
];

/** Returns the guide's code in one language, one block after the other. */
function blocks(language: string): string {
  return [...guide.matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , code]) => code)
    .join('\n');
}

/** Options for a test that needs a command. */
async function needs(command: string): Promise<ReturnType<typeof skipFor>> {
  return run(command, ['--version']).then(
    () => skipFor(undefined),
    () => skipFor(`there is no ${command}`),
  );
}

/** Runs a program of the guide with the address and the token that it expects; returns the lines that it prints. */
async function runExample(command: string, path: string, url: string, token: string): Promise<string[]> {
  const own = {
    ...{ PLANT_STORE_URL: url, PLANT_STORE_TOKEN: token, no_proxy: '127.0.0.1' },
    ...{ PYTHONPATH: join(root, 'examples'), PYTHONDONTWRITEBYTECODE: '1' },
  };
  const { stdout } = await run(command, [path], { env: { ...process.env, ...own } });
  return stdout.trimEnd().split('\n');
}

/** The expected output of the examples in each language: the guide's JSON, one line for each block. */
const output = blocks('json')
  .split('\n\n')
  .map((text) => JSON.stringify(JSON.parse(text)));

t.test('every example produces the output in the guide', async (t) => {
  const service = await startListening(t);
  const folder = await temporaryFolder(t);
  /** Runs the examples of one language for a new subject. */
  const examples = async (command: string, file: string, code: string) => {
    const path = join(folder, file);
    await writeFile(path, code);
    const token = await service.issue(`guide ${file}`);
    return runExample(command, path, `http://127.0.0.1:${service.port}`, token);
  };

  t.test('curl', await needs('curl'), async (t) => {
    t.strictSame(await examples('bash', 'examples.sh', blocks('bash')), output);
  });

  t.test('Python', await needs('python3'), async (t) => {
    t.strictSame(await examples('python3', 'examples.py', blocks('python')), output);
  });

  t.test('TypeScript', async (t) => {
    const { outputFiles } = await build({
      stdin: { contents: blocks('ts'), loader: 'ts', resolveDir: root },
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'node',
    });
    t.strictSame(await examples('node', 'examples.mjs', outputFiles[0]!.text), output);
  });
});

t.test('the Python of the guide repeats what was lost', await needs('python3'), async (t) => {
  const service = await startListening(t);
  const proxy = await startCuttingProxy(t, service.port);
  const path = join(await temporaryFolder(t), 'retries.py');
  const [definitions = ''] = blocks('python').split('\n\ncreated = ');
  await writeFile(
    path,
    `${definitions}
print(json.dumps(call("POST", "/plants", {"id": 1, "name": "Aloe", "tag": "dry"})))
print(json.dumps(call("GET", "/plants")))
print(call("DELETE", "/plants/1"))
for method, body in (("DELETE", None), ("POST", {"id": 2, "name": None})):
    try:
        call(method, "/plants/2" if body is None else "/plants", body)
    except HTTPError as failure:
        print(failure.code, json.load(failure)["error"])
`,
  );
  proxy.fates.push('lose response', 'lose request', 'pass', 'cut response', 'pass', 'lose response', 'pass');
  // A refusal that is cut off.
  proxy.fates.push('pass', 'cut body', 'pass');
  t.strictSame(await runExample('python3', path, proxy.url, await service.issue('retries')), [
    '{"name": "Aloe", "tag": "dry"}',
    '[{"name": "Aloe", "tag": "dry"}]',
    'None',
    '404 40400',
    '400 40002',
  ]);
  t.strictSame(proxy.fates, [], 'every request was repeated');

  const answers = [
    [500, 50000],
    [502, 0],
    [400, 40011],
  ] as const;
  const failing = createServer((_request, response) => {
    const [status, error] = answers[requests++]!;
    response.writeHead(status).end(JSON.stringify({ error, message: 'a' }));
  });
  let requests = 0;
  t.teardown(() => failing.close());
  await once(failing.listen(0, '127.0.0.1'), 'listening');
  await writeFile(path, `${definitions}\nprint(call("POST", "/plants", {"id": 1, "name": "Aloe"}))\n`);
  const url = `http://127.0.0.1:${(failing.address() as AddressInfo).port}`;
  t.strictSame(await runExample('python3', path, url, 'pst_a'), ["{'name': 'Aloe'}"]);
  t.equal(requests, answers.length);
});

t.test('the commands of the README do what it describes', await needs('curl'), async (t) => {
  const readme = read('README.md');
  const blockWith = (command: string) =>
    [...readme.matchAll(/^```sh\n([^]*?)^```$/gm)]
      .map(([, code = '']) => code)
      .find((code) => code.includes(command))!;
  const databaseUrl = `file:${join(await temporaryFolder(t), 'plants.db')}`;
  const server = await startServer(t, { env: { DATABASE_URL: databaseUrl } });
  const bash = async (code: string) =>
    (await run('bash', ['-ec', code], { cwd: root, env: { ...process.env, DATABASE_URL: databaseUrl } }))
      .stdout;

  const token = await server.createToken('reader');
  const session = blockWith('curl -w')
    .replace('pst_…', token)
    .replaceAll('http://127.0.0.1:3000', server.origin);
  const plant = '{"name":"Monstera deliciosa","tag":"indoor"}';
  t.equal(await bash(session), `${plant}\n[${plant}]\n204\n`);

  const [, ...requests] = read('docs/session.svg')
    .replace(/<tspan[^]*?<\/tspan>/g, '\n$ ')
    .replace(/<text.*?>(.*)<\/text>/g, '$1')
    .replace(/<[^]*?>/g, '')
    .replace(/\n\$ npm[^]*?(?=\n\$ )/, '')
    .split('\n$ ');
  for (const request of requests) {
    const [, command = '', response = ''] = /^(curl[^]*?)\n(\{"[^]*\})/.exec(request.trim())!;
    const code = `TOKEN=${token}\n${command.replace('curl', 'curl -s').replaceAll('&lt;', '<')}`;
    const shown = await bash(code.replaceAll('http://127.0.0.1:3000', server.origin));
    t.equal(shown, response.replace(/ to\n/, ' to '), 'as the picture shows it');
  }
  t.equal(requests.length, 3);

  const tokens = async () =>
    (await bash('node dist/cli.js token list'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: string; subject: string; state: string });
  const id = (await tokens())[0]!.id;
  const commands = blockWith('token create alice');
  t.match(commands, '0123456789ab');
  t.match(await bash(commands.replace('0123456789ab', id)), /^pst_\S+\npst_\S+\n[^]*alice[^]*bob/);
  const left = (await tokens()).filter(({ state }) => state === 'valid');
  t.strictSame(left.map(({ subject }) => subject).sort(), ['alice', 'bob'], 'one is revoked');
});

/** Puts the examples of the section about lists into a module that compiles if they do. */
function listsOf(page: string): string {
  const [, section = ''] = page.split('### Lists of a part, and totals\n');
  const [, part = '', handler = ''] = /^```ts\n([^]*?)^```$[^]*?^```ts\n([^]*?)^```$/m.exec(section) ?? [];
  return `import { type DocumentArray, type Documents, prefixRange } from 'contract-server';
interface Request { caller: { subject: string }; query: { after?: string; limit?: number } }
interface Task { name: string }
interface List { items: DocumentArray<string, Task>; next: () => string | undefined; total: number }
interface Handlers { listTasks(request: Request): Promise<List> }
export const part = (all: Documents<string, object>, { caller }: Request) => {
  return ${part}};
export const handlers = (all: Documents<string, Task>): Handlers => ({ ${handler} });
`;
}

t.test('packages/server/docs/start-your-own.md leads to a service', await needs('curl'), async (t) => {
  const page = read('packages/server/docs/start-your-own.md');
  const blocks = (language: string) =>
    [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);
  const folder = await temporaryFolder(t);
  const tasks = join(folder, 'tasks');
  const bash = async (code: string, cwd = tasks, env: Record<string, string> = {}) =>
    (await run('bash', ['-ec', code], { cwd, env: { ...process.env, ...env } })).stdout;

  const [pack = '', make = '', migrate = '', start = '', session = '', test = ''] = blocks('sh');
  const { version } = JSON.parse(read('packages/server/package.json')) as { version: string };
  const tarball = `contract-server-${version}.tgz`;
  t.match(pack, /^npm ci && npm run build && npm pack \.\/packages\/server\n/);
  t.match(pack, `mv ${tarball} ../services && cd ../services`);
  const [contract = ''] = blocks('yaml');
  await writeFile(join(folder, 'tasks.yaml'), contract);
  // The package of this checkout stands for the tarball, and its dependencies for those that npm would install.
  const command = `node ${join(root, 'packages/server/bin/contract-server.js')}`;
  const made = make
    .replace(`npx ./${tarball}`, command)
    .replace('npm install', `ln -s ${join(root, 'node_modules')} .`);
  t.not(made, make);
  await bash(made, folder);
  for (const [, file = ''] of page.matchAll(/^- `(src\/[\w.]+)`:/gm))
    t.ok(existsSync(join(tasks, file)), file);

  const [handlers = '', changed = '', tested = ''] = blocks('ts');
  await writeFile(join(tasks, 'src/handlers.ts'), handlers);
  await writeFile(join(tasks, 'src/lists.ts'), listsOf(read('packages/server/docs/service.md')));
  const definition = readFileSync(join(tasks, 'src/service.ts'), 'utf8');
  const [imported = '', collections = '', errors = ''] = changed.trim().split(/\n +/);
  const example = `example: { purpose: 'Write', method: 'PUT', path: '/tasks/water', body: '{"title": "Water"}' },`;
  const edited = definition
    .replace('import { createHandlers } from "./handlers.js";', imported)
    .replace('collections: [],', collections)
    .replace('errors: {},', errors + example);
  for (const line of [imported, collections, errors]) t.match(edited, line);
  await writeFile(join(tasks, 'src/service.ts'), edited);
  const testFile = join(tasks, 'src/service.test.ts');
  await writeFile(testFile, `${readFileSync(testFile, 'utf8')}\n${tested}`);
  const generated = await bash(migrate);
  for (const engine of ['sqlite', 'postgres'])
    t.match(generated, `migrations/${engine}/0002_tasks.sql is new: review it.`);
  // Node.js's reporters use either mark.
  t.match(await bash(test), /[#ℹ] pass 2\n[#ℹ] fail 0/);
  t.equal(await bash(`exec 2>&1\n${command} check openapi.yaml --strict`), '0 errors, 0 warnings.\n');

  t.equal(start, 'npm start\n');
  const { scripts } = JSON.parse(readFileSync(join(tasks, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  const [, script = ''] = /^node (\S+) --dev$/.exec(scripts.start) ?? [];
  const env = { DATABASE_URL: `file:${join(folder, 'tasks.db')}` };
  const { server, token } = await startOther(t, { script: join(tasks, script), env });
  const [shown] = blocks('json');
  t.match(token, /^tasks_/);
  t.equal(
    await bash(session.replace('tasks_…', token).replaceAll('http://127.0.0.1:3000', server.origin)),
    shown,
  );
  const [, suggestion = ''] = /\n\n( {2}curl [^]*)\n\n/.exec(server.stderr()) ?? [];
  t.match(await bash(suggestion), /"title":"Water"/, 'the request that its first start suggests');
  t.match(await bash('node dist/cli.js token create alice --scope tasks:read', tasks, env), /^tasks_\S+\n$/);
  t.equal(await server.end(), 0);
});

t.test('the README shows the command that starts the service, and those that run the tests', (t) => {
  for (const command of ['npm ci && npm start', 'npm cit', 'npm run test:quick'])
    t.match(read('README.md'), `\n\`\`\`sh\n${command}\n\`\`\`\n`);
  t.end();
});

t.test('the commands and files that the documents name exist', (t) => {
  const scripts = found(/`npm run ([\w:-]+)/g);
  t.strictSame(
    scripts.filter((name) => !(name in manifest.scripts)),
    [],
  );
  const files = found(/(?<![\w/.])((?:src|test|scripts|deploy|examples|packages)\/[\w./-]*\w\.[a-z]+\b)/g);
  t.strictSame(
    files.filter((path) => !existsSync(join(root, path))),
    [],
  );
  t.ok(scripts.length > 10 && files.length > 20);
  t.end();
});

t.test('no command of a document or script has a secret in its arguments', (t) => {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /^(?!.*node_modules|dist)(.*\.md|deploy\/.*\.sh|compose\.yaml|Dockerfile)$/.test(path),
  );
  const commands = files.flatMap((path) => {
    const text = read(path);
    const code = path.endsWith('.md')
      ? [...text.matchAll(/^ *```(?:sh|bash)\n([^]*?)^ *```$|`([^`\n]+)`/gm)].map(
          ([, block, span]) => block ?? span!,
        )
      : [path.endsWith('.sh') ? text : text.replace(/^(?! *(command|test|CMD|RUN|ENTRYPOINT)\b).*$/gm, '')];
    const lines = code.join('\n').replaceAll('\\\n', ' ').split('\n');
    return lines.filter((line) => !line.trim().startsWith('#')).map((line) => `${path}: ${line.trim()}`);
  });
  t.ok(files.length > 30 && commands.length > 500);
  const withSecret = commands.filter((command) => {
    // Values of variables and text for the standard input are no arguments, and a builtin of the shell shows its arguments
    // to nobody.
    const args = command
      .replace(/<<< ?("[^"]*"|\S+)/g, '')
      .replace(/: (export )?((\w+=("[^"]*"|\$\([^)]*\)|\S*) ?)+)/, ': ')
      .replace(/\becho "[^"]*"/g, '');
    return (
      /\$\{?\w*(_URL|PASSWORD|TOKEN|SECRET)\b(?!\/)/.test(args.replace(/\$(PLANT_STORE|BASE)_URL/g, '')) ||
      /\b(DATABASE_URL|\w*PASSWORD|\w*TOKEN)=["$]/.test(args) ||
      /\w+:\/\/[^\s/:@]+:[^\s@]+@/.test(args)
    );
  });
  // The README's requests are for trying the service on one's own machine, where nobody else can see them.
  const isTry = (command: string) => /^README\.md: curl .*http:\/\/127\.0\.0\.1:3000\//.test(command);
  t.strictSame(
    withSecret.filter((command) => !isTry(command)),
    [],
  );
  t.end();
});

t.test('the test commands that the documents name select tests', (t) => {
  const examples = readdirSync(join(root, 'examples'))
    .map((name) => `examples/${name}/test`)
    .filter((folder) => existsSync(join(root, folder)));
  const tests = ['test', 'packages/server/test', 'packages/client/test', ...examples]
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
        (name) => `${folder}/${name}`,
      ),
    )
    .filter((name) => name.endsWith('.test.ts'));
  const commands = found(/`(?:\w+=\S+ )?npm test -- ([^`]*)`/g);
  for (const command of commands) {
    const [words = '', ...patterns] = command.split(/ '?--grep=/).map((part) => part.replace(/'$/, ''));
    const files = words.split(' ').map((word) => tests.filter((path) => path.includes(word)));
    if (!words.startsWith('--'))
      t.ok(
        files.some(({ length }) => length > 0),
        command,
      );
    if (patterns.length === 0) continue;
    // A pattern selects tests of its level: those in the first column, or those inside them.
    const indentation = patterns.length > 1 ? ' +' : '';
    const names = files
      .flat()
      .flatMap((path) => [
        ...read(path).matchAll(new RegExp(`^${indentation}t\\.test\\(\\s*(['"])(.*)\\1`, 'gm')),
      ])
      .map(([, , name = '']) => name);
    t.ok(
      names.some((name) => new RegExp(patterns.at(-1)!).test(name)),
      command,
    );
  }
  t.ok(commands.length >= 9);
  t.end();
});

t.test('what several documents say is the same everywhere, and what the code says', (t) => {
  const [, oldest = ''] = /(\d+\.\d+)/.exec(manifest.engines.node)!;
  t.strictSame(found(/Node\.js (20\.\d+)(?: or later|\+)/g), [oldest]);
  t.strictSame(found(/plant-store(?:-client)?-(\d+\.\d+\.\d+)\.tgz/g), [manifest.version]);
  t.strictSame(found(/Schemathesis (\d[\d.]+\d)/g).length, 1, 'one release of Schemathesis');
  const [, released] = /version: (.*)/.exec(read('openapi.yaml'))!;
  t.strictSame(found(/`info\.version`, currently (\d+\.\d+\.\d+)/g), [released]);
  t.strictSame(found(/(?:takes effect|Its? own tokens can,|stops working) within (\w+ seconds)/g), [
    '5 seconds',
  ]);
  t.end();
});

t.test('docs/limits.md has the defaults of the configuration', (t) => {
  const limits = read('docs/limits.md');
  const configuration = read('packages/server/docs/configuration.md');
  const mebibyte = 2 ** 20;
  for (const [name, unit, shown] of [
    ['BODY_LIMIT_BYTES', mebibyte, /`BODY_LIMIT_BYTES`, (\d+) MiB/],
    ['MEMORY_BUDGET_BYTES', mebibyte, /`MEMORY_BUDGET_BYTES` \((\d+) MiB\)/],
    ['MAX_CONNECTIONS', 1_000, /`MAX_CONNECTIONS`, (\d+),000/],
    ['REQUEST_TIMEOUT_SECONDS', 1, /`REQUEST_TIMEOUT_SECONDS`, (\d+) s/],
  ] as const) {
    const [, value] = new RegExp(`\`${name}\` \\(default \`(\\d+)\``).exec(configuration)!;
    t.equal(Number(shown.exec(limits)?.[1]) * unit, Number(value), name);
  }
  t.end();
});

t.test('README.md and docs/limits.md have the ratios of the benchmarks', (t) => {
  const [limits, readme] = [read('docs/limits.md'), read('README.md').replaceAll(/\s+/g, ' ')];
  const ratios = read('docs/benchmarks/ratios.csv')
    .split('\n')
    .map((line) => /^"([^"]*)","([^"]*)",(.*?,\d+),([\d.]+),.*,(?:peer|foreign)$/.exec(line) ?? [])
    .map(([, server = '', other = '', load = '', ratio = '']) => ({ server, other, load, ratio }));
  const slower = ratios.filter(({ ratio }) => Number(ratio || 1) < 1);
  const isRusqlite = ({ other }: { other: string }) => other.includes('rusqlite');
  const bySpeed = slower.filter(isRusqlite).sort((a, b) => Number(a.ratio) - Number(b.ratio));
  t.match(limits, `[${bySpeed[0]?.ratio} to ${bySpeed.at(-1)?.ratio}](benchmarks/ratios.csv)`);
  for (const { other, ratio } of slower.filter((row) => !isRusqlite(row)))
    t.match(limits, new RegExp(`\\(${ratio}\\b`), other);
  const creates = ratios.filter(
    ({ server, load }) => server === 'Plant Store on SQLite' && load === 'create,256',
  );
  t.ok(creates.length >= 2);
  for (const { other, ratio } of creates)
    t.ok(readme.includes(`${ratio} times as fast as those of ${other.replace(', plain', ' alone')}`), other);
  t.end();
});

t.test('every promise of the README has a row in docs/evidence.md', (t) => {
  const promises = [...read('README.md').matchAll(/^- \*\*(.*)\.\*\*/gm)].map(([, name]) => name);
  const proven = new Set(
    [...read('docs/evidence.md').matchAll(/^\| \*\*(.*?)\*\*/gm)].map(([, name]) => name),
  );
  t.strictSame(
    promises.filter((name) => !proven.has(name)),
    [],
  );
  t.ok(promises.length >= 5);
  t.end();
});
