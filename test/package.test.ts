// Packs the packages, installs them in an empty folder as their users do, and checks, compiles, bundles and runs them there.
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
import { temporaryFolder } from '../packages/server/test/support/engines.js';
import { create, startServer } from '../packages/server/test/support/processes.js';
import { startListening } from '../packages/server/test/support/service.js';

const run = promisify(execFile);
const root = new URL('..', import.meta.url).pathname;
const folder = await temporaryFolder(t);

interface Manifest {
  name: string;
  version: string;
  license: string;
  engines: { node: string };
  dependencies: Record<string, string>;
}

const readManifest = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8')) as Manifest;
const store = readManifest('package.json');
const server = readManifest('packages/server/package.json');
const client = readManifest('packages/client/package.json');

/** Runs an npm command in a folder. */
const npm = (cwd: string, ...argv: string[]) => run('npm', argv, { cwd });
const tarball = ({ name, version }: Manifest) => join(folder, `${name}-${version}.tgz`);

/** A program that uses all of the client's types. */
const program = `import { ApiError, createClient, type Attempt, type NewPlant, type Plant } from 'plant-store-client';
export async function use(token: () => Promise<string>, signal?: AbortSignal): Promise<void> {
  const onAttempt = ({ answer, cause }: Attempt) => {};
  const plants = createClient({ baseUrl: '/', token, timeout: 0, maxWait: 1_000, onAttempt });
  const monstera: NewPlant = { id: BigInt(1), name: 'Monstera deliciosa', tag: undefined };
  const created: Plant = await plants.createPlant(monstera, { signal, onAttempt, retries: 0 });
  for await (const { name, tag } of plants.streamPlants({ limit: 10 })) [name, tag] satisfies unknown[];
  await plants.deletePlant(1, { timeout: 10 }).catch((error: unknown) => {
    if (!(error instanceof ApiError) || !error.is('plantNotFound')) throw error;
    const status: 404 = error.status;
  });
  const call = { signal: undefined, onAttempt: undefined, timeout: undefined, retries: undefined };
  const none = { ...call, maxWait: undefined, maxPlantBytes: undefined, fetch: undefined, clock: undefined };
  await createClient({ baseUrl: '/', token, ...none }).listPlants({ ...call, limit: undefined });
  // @ts-expect-error -- a list has no ids
  created.id;
  // @ts-expect-error -- a name is required
  await plants.createPlant({ id: 1, name: undefined });
}`;

t.test('the client', async (t) => {
  // The test runner has built everything already.
  await npm(root, 'pack', './packages/client', '--pack-destination', folder);
  const packed = tarball(client);
  const home = await temporaryFolder(t);
  await writeFile(join(home, 'package.json'), '{ "type": "module" }');
  // The dependencies come from this checkout, so that no registry is asked.
  const dependencies = ['openapi-fetch', 'openapi-typescript-helpers'].map((name) =>
    join(root, 'node_modules', name),
  );
  await npm(home, 'install', '--offline', '--install-links', packed, ...dependencies);
  const installed = join(home, 'node_modules/plant-store-client');

  t.test('is released with the store and the server, and needs only openapi-fetch', async (t) => {
    const common = ({ version, license, engines }: Manifest) => ({ version, license, engines });
    t.strictSame([common(client), common(server)], [common(store), common(store)]);
    t.strictSame(Object.keys(client.dependencies), ['openapi-fetch']);
  });

  t.test('has types for every module resolution, and a README with examples that compile', async (t) => {
    const readme = readFileSync(join(installed, 'README.md'), 'utf8');
    const examples = [...readme.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code).join('');
    await writeFile(join(home, 'program.ts'), program);
    await writeFile(join(home, 'program.cts'), program);
    await writeFile(join(home, 'readme.ts'), examples);
    const { ModuleKind, ModuleResolutionKind } = ts;
    for (const [module, moduleResolution, files] of [
      [ModuleKind.CommonJS, ModuleResolutionKind.Node10, ['program.ts']],
      [ModuleKind.Node16, ModuleResolutionKind.Node16, ['program.ts', 'program.cts']],
      [ModuleKind.NodeNext, ModuleResolutionKind.NodeNext, ['program.ts', 'program.cts']],
      [ModuleKind.ESNext, ModuleResolutionKind.Bundler, ['program.ts', 'readme.ts']],
    ] as const) {
      const paths = files.map((file) => join(home, file));
      const compilation = ts.createProgram(paths, {
        module,
        moduleResolution,
        target: ts.ScriptTarget.ES2022,
        lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        skipDefaultLibCheck: true,
      });
      const faults = ts.getPreEmitDiagnostics(compilation).map(({ messageText }) => messageText);
      t.strictSame(faults, [], ModuleResolutionKind[moduleResolution]);
    }
  });

  t.test('has source maps that lead to sources in it', async (t) => {
    const files = await readdir(installed, { recursive: true });
    for (const file of files.filter((file) => file.endsWith('.js'))) {
      const map = JSON.parse(readFileSync(join(installed, `${file}.map`), 'utf8')) as { sources: string[] };
      t.equal(map.sources.length, 1);
      for (const source of map.sources)
        t.ok(files.includes(join(dirname(file), source)), `${file}: ${source}`);
    }
  });

  t.test('is one copy for import and require, and CommonJS for those that cannot require it', async (t) => {
    await writeFile(
      join(home, 'both.cjs'),
      `const required = require('plant-store-client');
      const commonJs = require('./node_modules/plant-store-client/dist/cjs/index.js');
      commonJs.createClient({ baseUrl: '/', token: 't' });
      import('plant-store-client').then((imported) => {
        console.log(required.ApiError === imported.ApiError, Object.keys(commonJs).sort());
      });`,
    );
    const { stdout } = await run(process.execPath, ['--throw-deprecation', 'both.cjs'], { cwd: home });
    const names = "[ 'ApiError', 'ConnectionError', 'PlantStoreError', 'createClient' ]";
    t.equal(stdout, `true ${names}\n`);
    const contents = "require('plant-store-client'); import('plant-store-client')";
    const { metafile } = await build({
      stdin: { contents, resolveDir: home },
      bundle: true,
      write: false,
      metafile: true,
    });
    t.notMatch(Object.keys(metafile.inputs).join(), '/cjs/', 'in a bundle too');
  });

  t.test('is small in the bundle of a page, without further imports', async (t) => {
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
  });

  t.test('runs the example', async (t) => {
    await copyFile(join(root, 'examples/client.js'), join(home, 'client.js'));
    const { port, token } = await startListening(t);
    const env = {
      ...process.env,
      PLANT_STORE_URL: `http://127.0.0.1:${port}`,
      PLANT_STORE_TOKEN: token,
    };
    const refused = { ...env, PLANT_STORE_TOKEN: 'unknown' };
    await t.rejects(run(process.execPath, ['client.js'], { cwd: home, env: refused }), {
      code: 1,
      stderr: /^refused: 401 40101 .*\n$/,
    });
    const { stdout } = await run(process.execPath, ['client.js'], { cwd: home, env });
    t.match(stdout, /^created [^]+deleted 9007199254740993n\nalready deleted: 404 40400/);
  });
});

t.test('the Plant Store', async (t) => {
  const { stdout } = await npm(root, 'pack', '--ignore-scripts', '--json', '--pack-destination', folder);
  const packed = tarball(store);
  const home = await temporaryFolder(t);
  await writeFile(join(home, 'package.json'), '{}');
  // With an empty cache, nothing can come from a registry.
  await npm(home, 'install', '--offline', '--cache', join(home, 'cache'), '--ignore-scripts', packed);
  const installed = join(home, 'node_modules/plant-store');

  t.test('contains the files that its documents link to', async (t) => {
    const files = stdout.match(/(?<="path": ")(?!node_modules)[^"]+/g)!;
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
  });

  t.test('runs alone, without a registry', async (t) => {
    const server = await startServer(t, { script: join(installed, 'dist/main.js'), env: {} });
    const { status } = await create(server, await server.createToken('alice'), '{"id":1,"name":"Aloe"}');
    t.equal(status, 200);
    t.equal(await server.end(), 0);
    const { stdout } = await run(join(home, 'node_modules/.bin/plant-store'), ['--version']);
    t.equal(stdout, `${store.version}\n`);
  });

  t.test('runs on the oldest supported Node.js', async (t) => {
    const lock = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version: string; engines?: { node?: string } }>;
    };
    const oldest = minVersion(store.engines.node)!;
    const unfit = Object.entries(lock.packages)
      .filter(([, { engines }]) => !satisfies(oldest, engines?.node ?? '*'))
      .map(([path]) => path.replace(/.*node_modules\//, ''));
    t.strictSame(unfit, []);
  });
});
