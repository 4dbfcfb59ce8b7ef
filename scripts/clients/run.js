// Generates clients from openapi.yaml with common generators, compiles them, runs each against the real service, and
// writes the results to docs/clients.md. Run by hand, since it takes minutes and many downloads: "npm run test:clients".
// With names of clients, it runs only those and writes nothing.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { format } from 'prettier';
import ts from 'typescript';
import openapiTS, { astToString } from 'openapi-typescript';
import { build } from 'esbuild';
import { parse } from 'yaml';
import { startServer } from '../../test/support/server-process.js';

const root = new URL('../..', import.meta.url).pathname;
const contract = join(root, 'openapi.yaml');
const openapiGenerator = '7.17.0';
const oapiCodegen = 'v2.8.2';
const heyApi = '0.94.0';

/**
 * @typedef {object} Client
 * @property {string} tool - The generator, with its version.
 * @property {string} language
 * @property {string[]} needs - The commands without which it cannot run.
 * @property {(folder: string) => Promise<unknown>} build - Generates into the folder, which has the round trip's
 *   program, and compiles.
 * @property {(folder: string) => [command: string, ...argv: string[]]} run - The command that makes the round trip.
 * @property {string} set - What its user must configure.
 * @property {string} errors - How its errors are typed.
 */

/** @type {Record<string, Client>} */
const clients = {
  python: {
    tool: `openapi-generator ${openapiGenerator}, \`python\``,
    language: 'Python',
    needs: ['java', 'mvn', 'python3'],
    async build(folder) {
      await generate('python', folder, '.');
      await command(folder, 'python3', '-m', 'venv', 'venv');
      await command(folder, 'venv/bin/pip', 'install', '--quiet', '.');
      await command(folder, 'python3', '-m', 'compileall', '-q', 'openapi_client');
    },
    run: (folder) => [join(folder, 'venv/bin/python'), 'round_trip.py'],
    set: 'Set `host` and `access_token` of `Configuration`.',
    errors: 'One exception class per status; its `data` is an `Error`.',
  },
  java: {
    tool: `openapi-generator ${openapiGenerator}, \`java\``,
    language: 'Java',
    needs: ['java', 'javac', 'mvn'],
    async build(folder) {
      await generate('java', folder, '.');
      await cp(join(folder, 'RoundTrip.java'), join(folder, 'src/main/java/RoundTrip.java'));
      await command(folder, 'mvn', '-q', '-B', 'compile', 'dependency:copy-dependencies');
    },
    run: () => ['java', '-cp', 'target/classes:target/dependency/*', 'RoundTrip'],
    set: 'Call `setBasePath` and `setBearerToken` of `ApiClient`.',
    errors: '`ApiException` with the status; `Error.fromJson(getResponseBody())` parses the body.',
  },
  go: {
    tool: `openapi-generator ${openapiGenerator}, \`go\``,
    language: 'Go',
    needs: ['java', 'mvn', 'go'],
    async build(folder) {
      await generate(
        'go',
        folder,
        'openapi',
        '--additional-properties=withGoMod=false',
        '--model-name-mappings=NewPlant=PlantInput',
        '--global-property=apiTests=false',
      );
      await rm(join(folder, 'openapi/test'), { recursive: true, force: true });
      await buildGo(folder);
    },
    run: (folder) => [join(folder, 'roundtrip')],
    set:
      'Generate with `--model-name-mappings=NewPlant=PlantInput`; otherwise the type `NewPlant` clashes with the ' +
      'constructor of `Plant`. Set `Servers` in the configuration, and the token as `ContextAccessToken` in the context.',
    errors: '`GenericOpenAPIError`, whose `Model()` is an `Error`; the status is in the response.',
  },
  'oapi-codegen': {
    tool: `oapi-codegen ${oapiCodegen}`,
    language: 'Go',
    needs: ['go'],
    async build(folder) {
      const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${oapiCodegen}`;
      await command(folder, 'mkdir', 'plants');
      await command(
        folder,
        'go',
        'run',
        tool,
        '-generate',
        'types,client',
        '-package',
        'plants',
        '-o',
        'plants/plants.gen.go',
        contract,
      );
      await buildGo(folder);
    },
    run: (folder) => [join(folder, 'roundtrip')],
    set: 'Pass the address of the server, and set the token in a `RequestEditorFn`.',
    errors: 'One field per status (`JSON400`, `JSON404`, …), each an `*Error`.',
  },
  'typescript-fetch': {
    tool: `openapi-generator ${openapiGenerator}, \`typescript-fetch\``,
    language: 'TypeScript',
    needs: ['java', 'mvn'],
    async build(folder) {
      await generate(
        'typescript-fetch',
        folder,
        'client',
        '--type-mappings=long=bigint',
        '--language-specific-primitives=bigint',
      );
      await buildTypeScript(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    set:
      'Generate with `--type-mappings=long=bigint --language-specific-primitives=bigint`; otherwise ids beyond 2^53 ' +
      'are rounded. Add a `toJSON` to `BigInt.prototype`, and a `fetchApi` that removes the quotes from the id, because ' +
      'the client serializes with `JSON.stringify`.',
    errors:
      '`ResponseError` with the status; `ModelErrorFromJSON` parses the body (`Error` is renamed to `ModelError`).',
  },
  'hey-api': {
    tool: `@hey-api/openapi-ts ${heyApi}`,
    language: 'TypeScript',
    needs: ['npx'],
    async build(folder) {
      await command(
        folder,
        'npx',
        '--yes',
        '-p',
        `@hey-api/openapi-ts@${heyApi}`,
        '-p',
        `typescript@${ts.version}`,
        'openapi-ts',
        '-i',
        contract,
        '-o',
        'client',
        '-c',
        '@hey-api/client-fetch',
        '-p',
        '@hey-api/typescript',
        '@hey-api/sdk',
        '@hey-api/transformers',
      );
      await buildTypeScript(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    set:
      'Generate with the plugin `@hey-api/transformers`, which maps int64 to bigint. Set `baseUrl`, `auth`, and a ' +
      '`bodySerializer` that writes the id as unquoted digits: the default one sends a bigint as a string, which ' +
      'returns 400.',
    errors: '`error` of the result is an `Error`; the status is in the response.',
  },
  'openapi-fetch': {
    tool: 'openapi-typescript with openapi-fetch',
    language: 'TypeScript',
    needs: [],
    async build(folder) {
      const types = await openapiTS(new URL(`file://${contract}`), {
        transform: ({ format }) =>
          format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined,
      });
      await command(folder, 'mkdir', 'client');
      await writeFile(join(folder, 'client/types.ts'), astToString(types));
      await buildTypeScript(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    set:
      'Generate with a `transform` that maps int64 to bigint. Set the header `authorization`, and a `bodySerializer` ' +
      'that writes the id as unquoted digits.',
    errors: '`error` of the result is an `Error`; the status is in the response.',
  },
  progenitor: {
    tool: 'progenitor 0.15.1',
    language: 'Rust',
    needs: ['cargo'],
    async build(folder) {
      await writeFile(join(folder, 'openapi.json'), JSON.stringify(parse(await readFile(contract, 'utf8'))));
      await command(folder, 'cargo', 'build', '--quiet');
    },
    run: (folder) => [join(process.env['CARGO_TARGET_DIR'] ?? join(folder, 'target'), 'debug/round-trip')],
    set: 'Set the token as a default header of the `reqwest::Client`.',
    errors: '`Error::ErrorResponse`, with the status and an `Error`.',
  },
};

const workshop = await mkdtemp(join(tmpdir(), 'plant-store-clients-'));
const server = await startServer();

try {
  const chosen = process.argv.slice(2);
  const names = chosen.length > 0 ? chosen : Object.keys(clients);
  const rows = [];
  for (const name of names) {
    const client = clients[name];
    if (client === undefined)
      throw new Error(`there is no client ${name}: ${Object.keys(clients).join(', ')}`);
    const result = await examine(name, client);
    console.log(`${name}: ${JSON.stringify(result)}`);
    if (result.missing.length === 0 && !(result.compiles && result.exact && result.typed))
      process.exitCode = 1;
    rows.push({ client, result });
  }
  if (chosen.length === 0) await writeFile(join(root, 'docs/clients.md'), await report(rows));
} finally {
  await server.end();
  await rm(workshop, { recursive: true, force: true });
}

/**
 * Generates, compiles and runs one client.
 * @param {string} name
 * @param {Client} client
 */
async function examine(name, client) {
  const folder = join(workshop, name);
  const result = {
    missing: /** @type {string[]} */ ([]),
    compiles: false,
    exact: false,
    typed: false,
    fault: '',
  };
  for (const tool of client.needs) {
    // Every one of them answers one of the two.
    const there = await command(root, 'sh', '-c', `${tool} --version || ${tool} version`).catch(
      () => undefined,
    );
    if (there === undefined) result.missing.push(tool);
  }
  if (result.missing.length > 0) return result;
  await cp(join(root, 'scripts/clients', name), folder, { recursive: true });
  try {
    await client.build(folder);
    result.compiles = true;
    Object.assign(result, await roundTrip(name, folder, client));
  } catch (error) {
    result.fault = error instanceof Error ? error.message : String(error);
  }
  return result;
}

/**
 * Lets a client's program create 2^53+1 between two neighbors, and 2^63-1; list, delete, and meet four errors.
 * @param {string} subject
 * @param {string} folder
 * @param {Client} client
 */
async function roundTrip(subject, folder, client) {
  const token = await server.createToken(subject);
  /** @type {(method: string, path: string, body?: string) => Promise<string>} */
  const call = async (method, path, body = undefined) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(server.origin + path, { method, headers, body: body ?? null });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.text();
  };
  const neighbors = { below: 2n ** 53n, above: 2n ** 53n + 2n };
  for (const [name, id] of Object.entries(neighbors)) {
    await call('POST', '/plants', `{"id":${id},"name":"${name}"}`);
  }

  const [program, ...argv] = client.run(folder);
  const printed = await command(folder, program, ...argv, {
    BASE_URL: server.origin,
    TOKEN: token,
    READ_TOKEN: await server.createToken(subject, '--scope', 'plants:read'),
  });
  const { list, errors } = JSON.parse(printed);
  /** @type {{ name: string }[]} */
  const plants = JSON.parse(await call('GET', '/plants'));
  const left = plants.map(({ name }) => name);
  // It throws when these are not there under their very ids.
  for (const id of [2n ** 63n - 1n, ...Object.values(neighbors)]) {
    await call('DELETE', `/plants/${id}`);
  }
  return {
    exact:
      isDeepStrictEqual(list, ['below', 'own', 'above']) &&
      isDeepStrictEqual(left, ['below', 'above', 'max']),
    typed: isDeepStrictEqual(errors, [
      [400, 40010],
      [401, 40101],
      [403, 40300],
      [404, 40400],
    ]),
  };
}

/**
 * Runs openapi-generator, which Maven fetches.
 * @param {string} language
 * @param {string} folder
 * @param {string} target - Where to, below the folder.
 * @param {string[]} options
 */
async function generate(language, folder, target, ...options) {
  const artifact = `org.openapitools:openapi-generator-cli:${openapiGenerator}`;
  await command(
    workshop,
    'mvn',
    '-q',
    '-B',
    'dependency:copy',
    `-Dartifact=${artifact}`,
    `-DoutputDirectory=${workshop}`,
  );
  const jar = join(workshop, `openapi-generator-cli-${openapiGenerator}.jar`);
  await command(
    folder,
    'java',
    '-jar',
    jar,
    'generate',
    '-i',
    contract,
    '-g',
    language,
    '-o',
    target,
    ...options,
  );
}

/** @param {string} folder */
async function buildGo(folder) {
  await command(folder, 'go', 'mod', 'init', 'roundtrip');
  await command(folder, 'go', 'mod', 'tidy');
  await command(folder, 'go', 'vet', './...');
  await command(folder, 'go', 'build', '-o', 'roundtrip', '.');
}

/**
 * Checks the types of a client and its program, strictly, and makes one file of them.
 * @param {string} folder
 */
async function buildTypeScript(folder) {
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
  await command(folder, 'ln', '-s', join(root, 'node_modules'), 'node_modules');
  const options =
    '--noEmit --strict --skipLibCheck --target es2023 --lib es2023,dom,dom.iterable ' +
    '--module esnext --moduleResolution bundler --types node';
  await command(folder, join(root, 'node_modules/.bin/tsc'), ...options.split(' '), 'round-trip.ts');
  await build({
    absWorkingDir: folder,
    entryPoints: ['round-trip.ts'],
    outfile: join(folder, 'round-trip.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
  });
}

/**
 * Runs a command, and gives what it prints.
 * @param {string} folder
 * @param {string} program
 * @param {(string | Record<string, string>)[]} rest - Arguments; an object is environment.
 */
async function command(folder, program, ...rest) {
  const argv = rest.filter((item) => typeof item === 'string');
  const env = Object.assign({}, process.env, ...rest.filter((item) => typeof item !== 'string'));
  const { stdout } = await promisify(execFile)(program, argv, { cwd: folder, env, maxBuffer: 2 ** 26 }).catch(
    ({ message, stdout, stderr }) => {
      throw new Error([message, stdout, stderr].join('\n').slice(0, 4_000));
    },
  );
  return stdout;
}

/** @param {{ client: Client; result: Awaited<ReturnType<typeof examine>> }[]} rows */
async function report(rows) {
  const { version } = JSON.parse(
    await readFile(join(root, 'node_modules/openapi-fetch/package.json'), 'utf8'),
  );
  const nameOf = (/** @type {Client} */ { tool }) =>
    tool.endsWith('openapi-fetch') ? `${tool} ${version}` : tool;
  const lines = rows.map(({ client, result }) => {
    const verdicts =
      result.missing.length > 0
        ? Array(3).fill(`not run: no ${result.missing.join(', ')}`)
        : [result.compiles, result.exact, result.typed].map((good) => (good ? 'yes' : '**no**'));
    const [compiles, exact, typed] = verdicts;
    return `| ${nameOf(client)} | ${client.language} | ${compiles} | ${exact} | ${typed} |`;
  });
  const notes = rows.map(
    ({ client }) => `- **${nameOf(client)}**\n  - Setup: ${client.set}\n  - Errors: ${client.errors}`,
  );
  const text = `<!-- Written by "npm run test:clients"; do not edit. -->

# Generated clients

For TypeScript and JavaScript, use plant-store-client: it needs only an address and a token, and retries lost requests.
See [api.md](api.md#typescript). For other languages, generate a client from [openapi.yaml](../openapi.yaml). This page
shows which generators work, and what to configure.

\`npm run test:clients\` generates each client, compiles it, and runs the program
for it in the repository's scripts/clients against the service. The program creates plants 2^53+1 (between existing plants
2^53 and 2^53+2) and 2^63-1, lists with a limit, deletes, and provokes four errors: 400, 401, 403 and 404.

| generator | language | compiles | exact ids | typed errors |
|---|---|---|---|---|
${lines.join('\n')}

${notes.join('\n')}
`;
  return format(text, { parser: 'markdown', printWidth: 120, proseWrap: 'always' });
}
