// Nothing of a contract is run by a sample of the documentation page, whatever its names and values are.
import fc from 'fast-check';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { engines } from '../../support/engines.js';
import { loadEdited } from '../../support/garden/garden.js';
import { startService } from '../../support/service.js';

const count = 300;
const piece = fc.constantFrom(
  ...['touch run', 'X', '`', '$(', ')', '${', '}', "'", '"'],
  ...["'''", '"""', '\\', '\n', '\u2028', '$IFS.', ';'],
  ...['!', '#', '&', '|', '<', '>', ' ', '*', '//', '/*', '$TOKEN', '\\n', '%s', '</pre>', '😀', '\u0085'],
  ...['$(touch run)', '`touch run`', "'; touch run; '", "' + process.exit(9) + '", '${process.exit(9)}'],
  ...["'+__import__('os')._exit(9)+'", '\\', "\\'", 'EOF\n'],
);
const names = fc.sample(
  fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join('')),
  { numRuns: count, seed: 1 },
);

const text = (example: string) => ({ schema: { type: 'string' }, example });
const kinds = [
  (name: string) => ({ type: 'apiKey', in: 'header', name }),
  (name: string) => ({ type: 'apiKey', in: 'cookie', name }),
  (scheme: string) => ({ type: 'http', scheme }),
];

/** What a sample sends: the header with the secret, another one, and the body. */
const sent = names.map((name, i) => {
  const secret = [
    [name, 'hidden'],
    ['Cookie', `${name}=hidden`],
    ['Authorization', `${name.toLowerCase()} hidden`],
  ][i % 3] as [string, string];
  return { secret, other: [`a${name}`, names.at(-1 - i)!], body: `b${name}` } as const;
});

/** The code of all samples in a language. */
async function samplesIn(language: string): Promise<string[]> {
  const paths = names.map((name, i) => {
    const parameters = [{ name: `a${name}`, in: 'header', required: true, ...text(sent[i]!.other[1]) }];
    const requestBody = { required: true, content: { 'text/plain': text(sent[i]!.body) } };
    const responses = { 204: { description: 'Done' } };
    const post = { operationId: `o${i}`, security: [{ [`s${i}`]: [] }], parameters, requestBody, responses };
    return [`/o${i}`, { post }] as const;
  });
  const securitySchemes = Object.fromEntries(names.map((name, i) => [`s${i}`, kinds[i % 3]!(name)]));
  const contract = loadEdited(
    {
      openapi: '3.1.0',
      info: { title: 'Hostile', version: '1' },
      paths: Object.fromEntries(paths),
      components: { securitySchemes },
    },
    {},
  );
  const done = () => Promise.resolve();
  const { app } = await startService(t, engines[0]!, {
    contract,
    handlers: Object.fromEntries(names.map((_, i) => [`o${i}`, done])),
    verifiers: Object.fromEntries(names.map((_, i) => [`s${i}`, () => undefined])),
  });
  const { payload } = await app.inject('/docs/');
  const codes = [...payload.matchAll(new RegExp(`<summary>${language}</summary>\\s*<pre>(.*?)</pre>`, 'gs'))];
  return codes.map(([, code = '']) =>
    code
      .replaceAll(/<\/?span[^>]*>/g, '')
      .replaceAll(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => entities[name]!),
  );
}
const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' };

/** Runs code in an empty folder; returns what it prints. */
async function run(t: Test, command: string, code: string): Promise<string> {
  const cwd = await mkdtemp(join(tmpdir(), 'samples-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  const env = { ...process.env, TOKEN: 'hidden' };
  const printed = execFileSync(command, command === 'node' ? ['--input-type=module', '-'] : ['-'], {
    cwd,
    env,
    input: code,
    maxBuffer: 1e8,
  });
  t.strictSame(await readdir(cwd), [], 'nothing was run');
  return printed.toString();
}

/** The requests that a script prints as lines of JSON, after a mark. */
const requestsIn = (printed: string) =>
  printed.split('\n').flatMap((line) => {
    const [, request] = line.split(/^REQUEST /);
    return request === undefined ? [] : [JSON.parse(request) as unknown];
  });

const requests = sent.map(({ secret, other, body }) => ({
  headers: Object.fromEntries([secret, other, ['Content-Type', 'text/plain']]),
  body,
}));

t.test('a sample for bash sends what the contract names, and runs nothing of it', async (t) => {
  const codes = await samplesIn('curl');
  t.equal(codes.length, count);
  const start = `curl() { printf '%s\\0' "$@"; cat; printf '\\0END\\0'; }\n`;
  const printed = await run(t, 'bash', start + codes.join('\n'));
  const expected = sent.map(({ secret, other, body }, i) => [
    ...['-i', '-X', 'POST', `https://HOST/o${i}`, '-H', '@-', '-H', other.join(': ')],
    ...['-H', 'Content-Type: text/plain', '--data-raw', body, `${secret.join(': ')}\n`],
  ]);
  t.strictSame(
    printed
      .split('\0END\0')
      .slice(0, -1)
      .map((args) => args.split('\0')),
    expected,
  );
});

t.test('a sample for Node.js sends what the contract names, and runs nothing of it', async (t) => {
  const codes = await samplesIn('TypeScript');
  const start = `globalThis.fetch = async (url, { headers, body }) => {
  console.log('REQUEST ' + JSON.stringify({ headers, body }));
  return { text: async () => '' };
};\n`;
  const printed = await run(t, 'node', start + codes.map((code) => `{\n${code}\n}\n`).join(''));
  t.strictSame(requestsIn(printed), requests);
});

t.test('a sample for Python sends what the contract names, and runs nothing of it', async (t) => {
  const codes = await samplesIn('Python');
  const start = `import json, sys
class requests:
    status_code, text = 200, ''
    def request(method, url, headers, data):
        print('REQUEST ' + json.dumps({'headers': headers, 'body': data.decode()}))
        return requests
sys.modules['requests'] = requests\n`;
  const printed = await run(t, 'python3', `${start}${codes.join('\n')}\n`);
  t.strictSame(requestsIn(printed), requests);
});
