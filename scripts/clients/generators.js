// Defines the generators whose clients are tried: how each client, and the program that uses it, is made.
import { execFile } from 'node:child_process';
import { cp, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

export const root = new URL('../..', import.meta.url).pathname;
const contract = join(root, 'openapi.yaml');
const openapiGenerator = '7.25.0';

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
      const packages = [`@hey-api/openapi-ts@${version}`, 'typescript@5'];
      await npx(folder, packages, 'openapi-ts', '-i', contract, '-o', 'client', ...words(options));
      return buildTypeScript(folder, this.program);
    },
  },
  orval: {
    version: '8.38.0',
    options: '`override.useBigInt`',
    program: 'typescript/orval.ts',
    async build(folder, { version }) {
      const output = { target: 'client/client.ts', client: 'fetch', override: { useBigInt: true } };
      const config = { plants: { input: contract, output } };
      await writeFile(join(folder, 'orval.config.mjs'), `export default ${JSON.stringify(config)};`);
      await npx(folder, [`orval@${version}`], 'orval', '--config', 'orval.config.mjs');
      return buildTypeScript(folder, this.program);
    },
  },
  kubb: {
    version: '4.39.3',
    options: "plugin-ts: `integerType: 'bigint'`; plugin-client: `dataReturnType: 'full'`, `client: 'fetch'`",
    program: 'typescript/kubb.ts',
    async build(folder, { version }) {
      const packages = ['cli', 'core', 'plugin-client', 'plugin-oas', 'plugin-ts'];
      await install(folder, ...packages.map((name) => `@kubb/${name}@${version}`));
      const client = { client: 'fetch', dataReturnType: 'full' };
      const config = `
        import { pluginClient } from '@kubb/plugin-client';
        import { pluginOas } from '@kubb/plugin-oas';
        import { pluginTs } from '@kubb/plugin-ts';
        export default {
          input: { path: '${contract}' },
          output: { path: 'client' },
          plugins: [pluginOas(), pluginTs({ integerType: 'bigint' }), pluginClient(${JSON.stringify(client)})],
        };`;
      await writeFile(join(folder, 'kubb.config.js'), config);
      await command(folder, ['node_modules/.bin/kubb', 'generate']);
      return buildTypeScript(folder, this.program);
    },
  },
  'swagger-typescript-api': {
    version: '13.13.0',
    options: '`--custom-config` with `primitiveTypeConstructs`',
    program: 'typescript/swagger-typescript-api.ts',
    async build(folder, { version }) {
      const config =
        "module.exports = { primitiveTypeConstructs: () => ({ integer: { $default: 'number', int64: 'bigint' } }) };";
      await writeFile(join(folder, 'config.cjs'), config);
      const options = ['-p', contract, '-o', 'client', '--custom-config', 'config.cjs'];
      const name = 'swagger-typescript-api';
      await npx(folder, [`${name}@${version}`], name, 'generate', ...options);
      return buildTypeScript(folder, this.program);
    },
  },
  ...Object.fromEntries(
    ['typescript-axios', 'typescript-fetch'].map((name) => [
      `openapi-generator \`${name}\``,
      {
        version: openapiGenerator,
        options: '`--type-mappings=long=bigint --language-specific-primitives=bigint`',
        program: `typescript/${name}.ts`,
        async build(folder, { options, program }) {
          await generate(folder, name, 'client', options);
          if (name === 'typescript-axios') await install(folder, 'axios@1');
          return buildTypeScript(folder, program);
        },
      },
    ]),
  ),
  'openapi-python-client': {
    version: '0.29.1',
    options: '',
    program: 'python/openapi-python-client.py',
    async build(folder, { version }) {
      const bin = await pythonPackages(folder, `openapi-python-client==${version}`);
      const options = ['generate', '--path', contract, '--meta', 'setup', '--output-path', 'client'];
      const path = `${bin}:${process.env['PATH']}`;
      await command(folder, [join(bin, 'openapi-python-client'), ...options], { PATH: path });
      await pythonPackages(folder, './client');
      return [join(bin, 'python'), basename(this.program)];
    },
  },
  'openapi-generator `python`': {
    version: openapiGenerator,
    options: '',
    program: 'python/python.py',
    async build(folder, { options }) {
      await generate(folder, 'python', 'client', options);
      return [join(await pythonPackages(folder, './client'), 'python'), basename(this.program)];
    },
  },
  'openapi-generator `java`': {
    version: openapiGenerator,
    options: '`--additional-properties=disallowAdditionalPropertiesIfNotPresent=false`',
    program: 'java/Program.java',
    async build(folder, { options }) {
      await generate(folder, 'java', '.', options);
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
      return buildGo(folder);
    },
  },
  ogen: {
    version: '1.24.0',
    options: '',
    program: 'go/ogen.go',
    async build(folder, { version }) {
      const tool = `github.com/ogen-go/ogen/cmd/ogen@v${version}`;
      await command(folder, ['go', 'run', tool, '--target', 'plants', '--package', 'plants', contract]);
      return buildGo(folder);
    },
  },
  'openapi-generator `go`': {
    version: openapiGenerator,
    options:
      '`--model-name-mappings NewPlant=PlantToCreate --additional-properties=disallowAdditionalPropertiesIfNotPresent=false`',
    program: 'go/go.go',
    async build(folder, { options }) {
      const rest = '--package-name plants --additional-properties=withGoMod=false';
      await generate(folder, 'go', 'plants', `${options} ${rest}`);
      // They import a module that does not exist.
      await rm(join(folder, 'plants/test'), { recursive: true });
      return buildGo(folder);
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
 * Generates a client with openapi-generator.
 * @param {string} folder
 * @param {string} name
 * @param {string} output
 * @param {string} options
 */
async function generate(folder, name, output, options) {
  const jars = dirname(folder);
  const jar = join(jars, `openapi-generator-cli-${openapiGenerator}.jar`);
  const artifact = `-Dartifact=org.openapitools:openapi-generator-cli:${openapiGenerator}`;
  await command(jars, ['mvn', '-q', '-B', 'dependency:copy', artifact, `-DoutputDirectory=${jars}`]);
  const argv = ['-i', contract, '-g', name, '-o', output, ...words(options)];
  await command(folder, ['java', '-jar', jar, 'generate', ...argv]);
}

/** Runs a program of npm's packages. @param {string} folder @param {string[]} packages @param {string[]} argv */
async function npx(folder, packages, ...argv) {
  const options = packages.flatMap((name) => ['--package', name]);
  await command(folder, ['npx', '--yes', ...options, '--', ...argv]);
}

/** Installs packages of npm. @param {string} folder @param {string[]} packages */
async function install(folder, ...packages) {
  await command(folder, ['npm', 'install', '--silent', '--no-audit', '--no-fund', ...packages]);
}

/** Installs a package of Python, and returns the folder of its programs. @param {string} folder @param {string} name */
async function pythonPackages(folder, name) {
  const bin = join(folder, 'venv/bin');
  await command(folder, ['python3', '-m', 'venv', 'venv']);
  await command(folder, [join(bin, 'pip'), 'install', '--quiet', name]);
  return bin;
}

/** Compiles a program with its client, which is the package plants. @param {string} folder */
async function buildGo(folder) {
  await command(folder, ['go', 'mod', 'init', 'program']);
  await command(folder, ['go', 'mod', 'tidy']);
  await command(folder, ['go', 'build', '-o', 'program', '.']);
  return [join(folder, 'program')];
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
