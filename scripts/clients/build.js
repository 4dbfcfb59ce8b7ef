// How the clients are generated and compiled: commands, openapi-generator, and the builds of each language.
import { execFile } from 'node:child_process';
import { cp, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';

export const root = new URL('../..', import.meta.url).pathname;
export const contract = join(root, 'openapi.yaml');
export const openapiGenerator = '7.17.0';

/**
 * A generator and the client that it writes.
 * @typedef {object} Client
 * @property {string} tool - The generator, with its version.
 * @property {string} language
 * @property {string[]} needs - The commands without which it cannot run.
 * @property {(folder: string) => Promise<unknown>} build - Generates the client in the folder, which contains the
 *   program for the round trip, and compiles both.
 * @property {(folder: string) => [command: string, ...argv: string[]]} run - The command that makes the round trip.
 * @property {string} program - The file with the program for the round trip, in the client's folder.
 * @property {string[]} [shown] - The files that a user needs, likewise: the generator's configuration, or code that
 *   makes ids exact.
 * @property {string} command - How a user generates it.
 * @property {string} set - What a user must configure.
 * @property {string} errors - How its errors are typed.
 */

/**
 * Runs a command, and returns what it prints.
 * @param {string} folder
 * @param {string} program
 * @param {(string | Record<string, string>)[]} rest - Arguments; an object is environment.
 * @returns {Promise<string>}
 * @throws {Error} With the output, if the command fails.
 */
export async function command(folder, program, ...rest) {
  const argv = rest.filter((item) => typeof item === 'string');
  const env = Object.assign({}, process.env, ...rest.filter((item) => typeof item !== 'string'));
  const { stdout } = await promisify(execFile)(program, argv, { cwd: folder, env, maxBuffer: 2 ** 26 }).catch(
    ({ message, stdout, stderr }) => {
      throw new Error([message, stdout, stderr].join('\n').slice(0, 4_000));
    },
  );
  return stdout;
}

/**
 * Runs openapi-generator, which Maven downloads once for all clients.
 * @param {string} language
 * @param {string} folder
 * @param {string} target - The target, relative to the folder.
 * @param {string[]} options
 */
export async function generate(language, folder, target, ...options) {
  const artifact = `org.openapitools:openapi-generator-cli:${openapiGenerator}`;
  const jars = dirname(folder);
  const copy = ['dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${jars}`];
  await command(jars, 'mvn', '-q', '-B', ...copy);
  const jar = join(jars, `openapi-generator-cli-${openapiGenerator}.jar`);
  const argv = ['generate', '-i', contract, '-g', language, '-o', target, ...options];
  await command(folder, 'java', '-jar', jar, ...argv);
}

/**
 * Installs packages from npm, of which the generator runs with the given arguments, on a current Node.js.
 * @param {string} folder
 * @param {string[]} packages
 * @param {string[]} argv - The command and its arguments.
 */
export async function generateOnNode(folder, packages, ...argv) {
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const dev = ['node@22', '@types/node@22', 'typescript@5'];
  await command(folder, 'npm', 'install', '--silent', '--no-audit', '--no-fund', ...packages, ...dev);
  await cp(join(root, 'scripts/clients/exact-ids.ts'), join(folder, 'exact-ids.ts'));
  await command(folder, 'npm', 'exec', '--', ...argv, { CONTRACT: contract });
}

/**
 * Checks the types of a client and its program, strictly, and bundles both.
 * @param {string} folder
 */
export async function buildTypeScript(folder) {
  const options =
    '--noEmit --strict --skipLibCheck --target es2023 --lib es2023,dom,dom.iterable ' +
    '--module esnext --moduleResolution bundler --allowImportingTsExtensions --types node';
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
 * As buildTypeScript, with this project's own packages.
 * @param {string} folder
 */
export async function buildWithOwnPackages(folder) {
  await linkOwnPackages(folder);
  await cp(join(root, 'scripts/clients/exact-body.ts'), join(folder, 'exact-body.ts'));
  await buildTypeScript(folder);
}

/**
 * Lets what runs in the folder import this project's own packages.
 * @param {string} folder
 */
export async function linkOwnPackages(folder) {
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
  await command(folder, 'ln', '-sfn', join(root, 'node_modules'), 'node_modules');
}
