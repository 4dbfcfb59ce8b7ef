// Runs the contract testers that npm has against the built server, prints a table of their versions and results, and
// exits with 1 if one has a finding: "npm run test:testers". With names of testers, it runs only those.
//
// Needs npm, and Java for Specmatic. Schemathesis has a script of its own: "npm run test:contract".
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import getPort from 'get-port';
import { endWithThisProcess, startServer } from '../../packages/server/test/support/server-process.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const contract = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));
const versions = {
  dredd: '14.1.0',
  specmatic: '2.55.1',
  '@stoplight/prism-cli': '5.14.2',
};

const folder = await mkdtemp(join(tmpdir(), 'plant-store-testers-'));
const server = await startServer();

/** @typedef {{ ok: boolean, output: string }} Result */
/** @typedef {{ tool: keyof typeof versions, run: () => Promise<Result>, summary: RegExp }} Tester */

/** @type {Record<string, Tester>} */
const testers = {
  dredd: { tool: 'dredd', run: runDredd, summary: /complete: (\d.*total)/ },
  specmatic: { tool: 'specmatic', run: runSpecmatic, summary: /(Tests run: .*)/ },
  prism: { tool: '@stoplight/prism-cli', run: runPrism, summary: /(.*requests.*)/ },
};

/**
 * Runs one of the installed programs, or another command.
 * @param {string} program
 * @param {string[]} argv
 * @param {Record<string, string>} [env]
 * @returns {Promise<Result>}
 */
function run(program, argv, env = {}) {
  const path = `${join(folder, 'node_modules/.bin')}:${process.env['PATH']}`;
  const options = { cwd: folder, maxBuffer: 2 ** 26, env: { ...process.env, PATH: path, ...env } };
  return new Promise((resolve) =>
    execFile(program, argv, options, (error, stdout, stderr) =>
      resolve({ ok: error === null, output: stripVTControlCharacters(stdout + stderr) }),
    ),
  );
}

async function runDredd() {
  const env = {
    BASE_URL: server.origin,
    TOKEN: await server.createToken('dredd'),
    READ_TOKEN: await server.createToken('dredd', '--scope', 'plants:read'),
    WRITE_TOKEN: await server.createToken('dredd', '--scope', 'plants:write'),
  };
  return run('dredd', [contract, server.origin, '--hookfiles', join(here, 'dredd-hooks.cjs')], env);
}

async function runSpecmatic() {
  const token = await server.createToken('specmatic');
  await createFirstPlant(server.origin, token);
  const overlay = join(here, 'specmatic-overlay.yaml');
  const argv = ['test', contract, `--testBaseURL=${server.origin}`, `--overlay-file=${overlay}`];
  // The program of the package ignores the exit status of the tests.
  return run('java', ['-jar', 'node_modules/specmatic/specmatic.jar', ...argv], {
    SPECMATIC_GENERATIVE_TESTS: 'true',
    bearerAuth: token,
  });
}

/** Sends requests through Prism, which adds a header to a response if it or its request violates the contract. */
async function runPrism() {
  const token = await server.createToken('prism');
  const port = await getPort();
  const argv = [
    join(folder, 'node_modules/.bin/prism'),
    'proxy',
    contract,
    server.origin,
    '--port',
    String(port),
  ];
  const proxy = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  endWithThisProcess(proxy, () => proxy.kill());
  try {
    for await (const line of createInterface({ input: proxy.stdout })) {
      if (line.includes('Prism is listening')) break;
    }
    const origin = `http://127.0.0.1:${port}`;
    const headers = { authorization: `Bearer ${token}` };
    const responses = [
      await createFirstPlant(origin, token),
      await createFirstPlant(origin, token),
      await fetch(`${origin}/plants?limit=1`, { headers }),
      await fetch(`${origin}/plants`, { headers: { authorization: 'Bearer wrong' } }),
      await fetch(`${origin}/plants/1`, { method: 'DELETE', headers }),
      await fetch(`${origin}/plants/1`, { method: 'DELETE', headers }),
    ];
    const statuses = responses.map(({ status }) => status);
    const violations = responses.flatMap((response) => response.headers.get('sl-violations') ?? []);
    return {
      ok: statuses.join() === '200,400,200,401,204,404' && violations.length === 0,
      output: [`${statuses.length} requests: ${statuses.join(', ')}`, ...violations].join('\n'),
    };
  } finally {
    proxy.kill();
    await once(proxy, 'close');
  }
}

/**
 * Creates a plant with the id of the contract's examples.
 * @param {string} origin
 * @param {string} token
 */
function createFirstPlant(origin, token) {
  return fetch(`${origin}/plants`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{"id":1,"name":"Monstera deliciosa"}',
  });
}

/**
 * Runs the testers with these names, one after another.
 * @param {string[]} names
 */
async function runAll(names) {
  const rows = [];
  for (const name of names) {
    const tester = testers[name];
    if (tester === undefined)
      throw new Error(`there is no tester ${name}: ${Object.keys(testers).join(', ')}`);
    const { ok, output } = await tester.run();
    if (!ok) {
      process.exitCode = 1;
      console.error(output);
    }
    const result = tester.summary.exec(output)?.[1] ?? '';
    rows.push({ tester: tester.tool, version: versions[tester.tool], passes: ok, result });
  }
  console.table(rows);
}

try {
  const packages = Object.entries(versions).map((entry) => entry.join('@'));
  await writeFile(join(folder, 'package.json'), '{}');
  const installed = await run('npm', ['install', '--silent', '--no-audit', '--no-fund', ...packages]);
  if (!installed.ok) throw new Error(`npm could not install the testers:\n${installed.output}`);
  await runAll(process.argv.length > 2 ? process.argv.slice(2) : Object.keys(testers));
  if (server.faults.length > 0) {
    console.error(`The server logged errors:\n${server.faults.join('\n')}`);
    process.exitCode = 1;
  }
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}
