// The generators whose clients are tried, each as how its client is generated, compiled and run.
import { execFile } from 'node:child_process';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

export const root = new URL('../..', import.meta.url).pathname;
const contract = join(root, 'openapi.yaml');

/**
 * A generator. Its folder beside this file has the program for the round trip.
 * @typedef {object} Generator
 * @property {string} version
 * @property {(folder: string, version: string) => Promise<unknown>} build - Generates the client in a copy of that
 *   folder, and compiles it and the program.
 * @property {(folder: string) => string[]} run - The command that makes the round trip.
 */

/** @type {Record<string, Generator>} */
export const generators = {
  'openapi-python-client': {
    version: '0.29.1',
    async build(folder, version) {
      const bin = join(folder, 'venv/bin');
      const pip = (/** @type {string} */ name) =>
        command(folder, [join(bin, 'pip'), 'install', '--quiet', name]);
      await command(folder, ['python3', '-m', 'venv', 'venv']);
      await pip(`openapi-python-client==${version}`);
      const generate = ['generate', '--path', contract, '--meta', 'setup', '--output-path', 'client'];
      await command(folder, [join(bin, 'openapi-python-client'), ...generate], {
        PATH: `${bin}:${process.env['PATH']}`,
      });
      await pip('./client');
      await command(folder, ['python3', '-m', 'compileall', '-q', 'client']);
    },
    run: (folder) => [join(folder, 'venv/bin/python'), 'round_trip.py'],
  },
  java: {
    version: '7.17.0',
    async build(folder, version) {
      const jars = dirname(folder);
      const artifact = `org.openapitools:openapi-generator-cli:${version}`;
      const maven = (/** @type {string[]} */ ...argv) => command(folder, ['mvn', '-q', '-B', ...argv]);
      await command(jars, [
        ...['mvn', '-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${jars}`],
      ]);
      const jar = join(jars, `openapi-generator-cli-${version}.jar`);
      await command(folder, ['java', '-jar', jar, 'generate', '-i', contract, '-g', 'java', '-o', '.']);
      await cp(join(folder, 'RoundTrip.java'), join(folder, 'src/main/java/RoundTrip.java'));
      await maven('compile', 'dependency:copy-dependencies');
    },
    run: () => ['java', '-cp', 'target/classes:target/dependency/*', 'RoundTrip'],
  },
  'oapi-codegen': {
    version: 'v2.8.2',
    async build(folder, version) {
      const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${version}`;
      const options = ['-generate', 'types,client', '-package', 'plants', '-o', 'plants/plants.gen.go'];
      await command(folder, ['mkdir', 'plants']);
      await command(folder, ['go', 'run', tool, ...options, contract]);
      await command(folder, ['go', 'mod', 'init', 'roundtrip']);
      await command(folder, ['go', 'mod', 'tidy']);
      await command(folder, ['go', 'vet', './...']);
      await command(folder, ['go', 'build', '-o', 'roundtrip', '.']);
    },
    run: (folder) => [join(folder, 'roundtrip')],
  },
  'hey-api': {
    version: '0.94.0',
    async build(folder, version) {
      const packages = ['-p', `@hey-api/openapi-ts@${version}`, '-p', 'typescript@5'];
      const plugins = ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/transformers'];
      const options = ['-i', contract, '-o', 'client', '-c', '@hey-api/client-fetch', '-p', ...plugins];
      await command(folder, ['npx', '--yes', ...packages, 'openapi-ts', ...options]);
      await buildTypeScript(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
  },
  'openapi-fetch': {
    version: "of package-lock.json, with openapi-typescript's types",
    async build(folder) {
      // Its option for bigint needs a program.
      const types = await openapiTS(pathToFileURL(contract), {
        transform: ({ format }) =>
          format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined,
      });
      await mkdir(join(folder, 'client'));
      await writeFile(join(folder, 'client/types.ts'), astToString(types));
      await buildTypeScript(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
  },
};

/**
 * Runs a command, and returns what it prints.
 * @param {string} folder
 * @param {readonly string[]} argv
 * @param {Record<string, string>} [env]
 * @returns {Promise<string>}
 * @throws {Error} With the output, if the command fails.
 */
export async function command(folder, [program = '', ...argv], env) {
  const options = { cwd: folder, env: { ...process.env, ...env }, maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)(program, argv, options).catch(
    ({ message, stdout, stderr }) => {
      throw new Error([message, stdout, stderr].join('\n').slice(0, 4_000));
    },
  );
  return stdout;
}

/**
 * Checks the types of a client and its program, strictly, and bundles both with this project's own packages.
 * @param {string} folder
 */
async function buildTypeScript(folder) {
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await cp(join(root, 'scripts/clients/exact-body.ts'), join(folder, 'exact-body.ts'));
  const options =
    '--noEmit --strict --skipLibCheck --target es2023 --lib es2023,dom,dom.iterable ' +
    '--module esnext --moduleResolution bundler --allowImportingTsExtensions --types node';
  await command(folder, [join(root, 'node_modules/.bin/tsc'), ...options.split(' '), 'round-trip.ts']);
  await build({
    absWorkingDir: folder,
    entryPoints: ['round-trip.ts'],
    outfile: join(folder, 'round-trip.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
  });
}
