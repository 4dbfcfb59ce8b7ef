// Defines the generators whose clients are tried: how each client, and the program that uses it, is made.
import { execFile } from 'node:child_process';
import { cp, mkdir, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

export const root = new URL('../..', import.meta.url).pathname;
const contract = join(root, 'openapi.yaml');

/**
 * A generator.
 * @typedef {object} Generator
 * @property {string} version
 * @property {string} options - Those that docs/clients.md shows.
 * @property {string} program - Its file beside this one.
 * @property {true} [quick] - Whether .ci/run tries it: it needs no download but small ones from npm.
 * @property {(folder: string, generator: Generator) => Promise<string[]>} build - Generates the client in a folder that
 *   has the program, compiles both, and returns the command that runs the program.
 */

/** @type {Record<string, Generator>} */
export const generators = {
  'openapi-typescript, openapi-fetch': {
    version: '7.13, 0.17',
    options: '`transform`',
    program: 'typescript/openapi-fetch.ts',
    quick: true,
    async build(folder) {
      // Its option for bigint needs a program.
      const types = await openapiTS(pathToFileURL(contract), {
        transform: ({ format }) =>
          format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined,
      });
      await mkdir(join(folder, 'client'));
      await writeFile(join(folder, 'client/types.ts'), astToString(types));
      return buildTypeScript(folder, this.program);
    },
  },
  '@hey-api/openapi-ts': {
    version: '0.99.0',
    options: '`-p @hey-api/typescript @hey-api/sdk @hey-api/transformers`',
    program: 'typescript/hey-api.ts',
    quick: true,
    async build(folder, { version, options }) {
      const packages = ['--package', `@hey-api/openapi-ts@${version}`, '--package', 'typescript@5'];
      const argv = ['openapi-ts', '-i', contract, '-o', 'client', ...words(options)];
      await command(folder, ['npx', '--yes', ...packages, '--', ...argv]);
      return buildTypeScript(folder, this.program);
    },
  },
  'openapi-python-client': {
    version: '0.29.1',
    options: '',
    program: 'python/openapi-python-client.py',
    async build(folder, { version }) {
      const bin = join(folder, 'venv/bin');
      const install = (/** @type {string} */ name) =>
        command(folder, [join(bin, 'pip'), 'install', '--quiet', name]);
      await command(folder, ['python3', '-m', 'venv', 'venv']);
      await install(`openapi-python-client==${version}`);
      const options = ['generate', '--path', contract, '--meta', 'setup', '--output-path', 'client'];
      const path = `${bin}:${process.env['PATH']}`;
      await command(folder, [join(bin, 'openapi-python-client'), ...options], { PATH: path });
      await install('./client');
      return [join(bin, 'python'), basename(this.program)];
    },
  },
  'openapi-generator `java`': {
    version: '7.25.0',
    options: '`--additional-properties=disallowAdditionalPropertiesIfNotPresent=false`',
    program: 'java/Program.java',
    async build(folder, { version, options }) {
      const artifact = `-Dartifact=org.openapitools:openapi-generator-cli:${version}`;
      await command(folder, ['mvn', '-q', '-B', 'dependency:copy', artifact, '-DoutputDirectory=.']);
      const argv = ['generate', '-i', contract, '-g', 'java', '-o', '.', ...words(options)];
      await command(folder, ['java', '-jar', `openapi-generator-cli-${version}.jar`, ...argv]);
      await rename(join(folder, 'Program.java'), join(folder, 'src/main/java/Program.java'));
      await command(folder, ['mvn', '-q', '-B', 'compile', 'dependency:copy-dependencies']);
      return ['java', '-cp', 'target/classes:target/dependency/*', 'Program'];
    },
  },
  'oapi-codegen': {
    version: '2.8.2',
    options: '`-generate types,client`',
    program: 'go/oapi-codegen.go',
    async build(folder, { version, options }) {
      const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v${version}`;
      const output = ['-package', 'plants', '-o', 'plants/plants.gen.go'];
      await mkdir(join(folder, 'plants'));
      await command(folder, ['go', 'run', tool, ...words(options), ...output, contract]);
      for (const argv of [
        ['mod', 'init', 'program'],
        ['mod', 'tidy'],
        ['build', '-o', 'program', '.'],
      ])
        await command(folder, ['go', ...argv]);
      return [join(folder, 'program')];
    },
  },
  progenitor: {
    version: '0.15.1',
    options: '',
    program: 'rust/main.rs',
    async build(folder, { version }) {
      await cp(contract, join(folder, 'openapi.yaml'));
      await mkdir(join(folder, 'src'));
      await rename(join(folder, 'main.rs'), join(folder, 'src/main.rs'));
      const manifest = `
        [package]
        name = "program"
        edition = "2024"
        [dependencies]
        futures = "0.3"
        progenitor = "=${version}"
        progenitor-client = "=${version}"
        regress = "0.12"
        reqwest = { version = "0.13", features = ["json", "query", "stream"] }
        serde = { version = "1", features = ["derive"] }
        serde_json = "1"
        tokio = { version = "1", features = ["macros", "rt"] }`;
      await writeFile(join(folder, 'Cargo.toml'), manifest);
      await command(folder, ['cargo', 'build', '--quiet']);
      return ['cargo', 'run', '--quiet', '--'];
    },
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

/** The words of options that docs/clients.md shows as code. @param {string} options */
function words(options) {
  return options.replaceAll('`', '').split(' ').filter(Boolean);
}

/**
 * Checks the types of a client and its program, strictly, and bundles both. This project's packages are in the folder above.
 * @param {string} folder
 * @param {string} program
 */
async function buildTypeScript(folder, program) {
  const file = basename(program);
  const options =
    '--noEmit --strict --skipLibCheck --target es2023 --lib es2023,dom,dom.iterable ' +
    '--module esnext --moduleResolution bundler --allowImportingTsExtensions --types node';
  await command(folder, [join(root, 'node_modules/.bin/tsc'), ...options.split(' '), file]);
  await build({
    absWorkingDir: folder,
    entryPoints: [file],
    outfile: 'program.mjs',
    bundle: true,
    packages: 'external',
    format: 'esm',
  });
  return [process.execPath, 'program.mjs'];
}
