// The two packages as their users get them: packed, checked, installed in an empty folder, compiled, bundled and run.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { minVersion, satisfies } from 'semver';
import t from 'tap';
import ts from 'typescript';
import { temporaryFolder } from './support/engines.js';
import { startListening } from './support/service.js';
import { skipFor } from './support/skip.js';

const run = promisify(execFile);
const root = new URL('..', import.meta.url).pathname;
const folder = await temporaryFolder(t);

interface Manifest {
  name: string;
  version: string;
  license: string;
  engines: { node: string };
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

const readManifest = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8')) as Manifest;
const server = readManifest('package.json');
const client = readManifest('src/client/package.json');

/** Runs a command of npm's, or of a development dependency's, in a folder. */
const npm = (cwd: string, ...argv: string[]) => run('npm', argv, { cwd });
const tool = (name: string, ...argv: string[]) => run(join(root, 'node_modules/.bin', name), argv);
const tarball = ({ name, version }: Manifest) => join(folder, `${name}-${version}.tgz`);

t.test('the client', async (t) => {
  // The build is there, as for all tests.
  await npm(root, 'pack', './dist/client', '--pack-destination', folder);
  const packed = tarball(client);

  t.test('is released with the server, and tested with its dependencies', async (t) => {
    const common = ({ version, license, engines }: Manifest) => ({ version, license, engines });
    t.strictSame(common(client), common(server));
    t.strictSame(Object.keys(client.dependencies), ['openapi-fetch']);
    t.match(server.devDependencies, client.dependencies);
    t.notMatch(server.dependencies, client.dependencies);
  });

  t.test('passes publint and are-the-types-wrong', async (t) => {
    await t.resolves(tool('publint', '--strict', packed));
    await t.resolves(tool('attw', '--profile', 'esm-only', packed));
  });

  t.test('installs in an empty folder, with only openapi-fetch', async (t) => {
    const home = await temporaryFolder(t);
    await writeFile(join(home, 'package.json'), '{ "type": "module" }');
    // What it depends on comes from here, so that no registry is asked.
    const dependencies = ['openapi-fetch', 'openapi-typescript-helpers'].map((name) =>
      join(root, 'node_modules', name),
    );
    await npm(home, 'install', '--offline', '--install-links', packed, ...dependencies);
    const installed = (await readdir(join(home, 'node_modules'))).filter((name) => !name.startsWith('.'));
    t.strictSame(installed, ['openapi-fetch', 'openapi-typescript-helpers', 'plant-store-client']);

    await writeFile(
      join(home, 'program.ts'),
      `import { ApiError, createClient, type Answer, type NewPlant, type Plant } from 'plant-store-client';
      const plants = createClient({ baseUrl: '/', token: async () => 'pst_…', timeout: 0, maxWait: 1_000 });
      const monstera: NewPlant = { id: 2n ** 53n + 1n, name: 'Monstera deliciosa' };
      const created: Plant = await plants.createPlant(monstera, { onAnswer: (answer: Answer) => {} });
      for await (const { name, tag } of plants.streamPlants({ limit: 10 })) [name, tag] satisfies unknown[];
      await plants.deletePlant(1).catch((error: unknown) => {
        if (!(error instanceof ApiError) || !error.is('plantNotFound')) throw error;
        const status: 404 = error.status;
      });
      // @ts-expect-error -- a list has no ids
      created.id;`,
    );
    const { ModuleKind, ModuleResolutionKind } = ts;
    for (const [module, moduleResolution] of [
      [ModuleKind.Node16, ModuleResolutionKind.Node16],
      [ModuleKind.NodeNext, ModuleResolutionKind.NodeNext],
      [ModuleKind.ESNext, ModuleResolutionKind.Bundler],
    ] as const) {
      const program = ts.createProgram([join(home, 'program.ts')], {
        module,
        moduleResolution,
        target: ts.ScriptTarget.ES2022,
        lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
      });
      const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText);
      t.strictSame(faults, [], ModuleResolutionKind[moduleResolution]);
    }

    const { outputFiles } = await build({
      stdin: { contents: "export * from 'plant-store-client'", resolveDir: home },
      bundle: true,
      minify: true,
      write: false,
      format: 'esm',
      platform: 'browser',
    });
    const { text, contents } = outputFiles[0]!;
    const bytes = gzipSync(contents, { level: 9 }).length;
    t.comment(`${bytes} bytes minified and gzipped`);
    t.ok(bytes < 10_000, `${bytes} bytes`);
    t.notMatch(text, /\bimport\b/);

    await copyFile(join(root, 'examples/client.js'), join(home, 'client.js'));
    const { port, token } = await startListening(t);
    const env = {
      ...process.env,
      PLANT_STORE_URL: `http://127.0.0.1:${port}`,
      PLANT_STORE_TOKEN: token,
    };
    const { stdout } = await run(process.execPath, ['client.js'], { cwd: home, env });
    t.match(stdout, /^created [^]+deleted 9007199254740993n\nalready deleted: 404 40400/);
  });
});

t.test('the server', async (t) => {
  await npm(root, 'pack', '--ignore-scripts', '--pack-destination', folder);
  const packed = tarball(server);

  t.test('passes publint', async (t) => {
    await t.resolves(tool('publint', '--strict', packed));
  });

  t.test('contains the files that its documents link to, and not the client', async (t) => {
    const { stdout } = await npm(root, 'pack', '--ignore-scripts', '--dry-run', '--json');
    const files = stdout.match(/(?<="path": ")[^"]+/g)!;
    const links = files
      .filter((file) => file.endsWith('.md'))
      .flatMap((file) =>
        [...readFileSync(join(root, file), 'utf8').matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) =>
          posix.join(dirname(file), path!),
        ),
      );
    t.ok(links.length > 40);
    for (const link of new Set(links))
      t.ok(
        files.some((file) => file === link || file.startsWith(link)),
        link,
      );
    for (const file of ['dist/main.js', 'dist/cli.js']) t.ok(files.includes(file), file);
    t.strictSame(
      files.filter((file) => file.includes('client/')),
      [],
    );
  });

  const registry = await npm(root, 'view', 'fastify', 'version').then(
    () => undefined,
    () => 'there is no registry of packages',
  );
  t.test('installs on the oldest supported Node.js', skipFor(registry), async (t) => {
    const home = await temporaryFolder(t);
    await writeFile(join(home, 'package.json'), '{}');
    // The overrides of this repository do not reach those who install the package.
    await npm(home, 'install', '--package-lock-only', '--ignore-scripts', '--prefer-offline', packed);
    const lock = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version: string; engines?: { node?: string } }>;
    };
    const oldest = minVersion(server.engines.node)!;
    const unfit = Object.entries(lock.packages)
      .filter(([, { engines }]) => !satisfies(oldest, engines?.node ?? '*'))
      .map(([path]) => path.replace(/.*node_modules\//, ''));
    t.strictSame(unfit, ['cookie'], 'which Fastify brings, as docs/operate.md says');
  });
});
