// Checks the packages as they are published: what their package.json promises is there, with types for every way to import.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
const folder = await mkdtemp(join(tmpdir(), 'packages-'));
try {
  for (const path of ['packages/server', 'packages/client']) {
    const manifest = JSON.parse(await readFile(join(root, path, 'package.json'), 'utf8'));
    const { messages } = await publint({ pkgDir: join(root, path), strict: true, pack: false });
    for (const message of messages) console.error(`${manifest.name}: ${formatMessage(message, manifest)}`);
    if (messages.length > 0) process.exitCode = 1;
  }
  await checkLinks();
  const { stdout } = await run(
    'npm',
    ['pack', './packages/client', '--silent', '--pack-destination', folder],
    { cwd: root },
  );
  const attw = join(import.meta.dirname, 'node_modules/@arethetypeswrong/cli/dist/index.js');
  await run(process.execPath, [attw, join(folder, stdout.trim())]).catch((error) => {
    console.error(error.stdout);
    process.exitCode = 1;
  });
} finally {
  await rm(folder, { recursive: true });
}

/** Checks that each relative link of the pages in contract-server's tarball leads to a file in it. */
async function checkLinks() {
  const { stdout } = await run(
    'npm',
    ['pack', './packages/server', '--dry-run', '--json', '--ignore-scripts'],
    {
      cwd: root,
    },
  );
  /** @type {[{ files: { path: string }[] }]} */
  const [{ files }] = JSON.parse(stdout);
  const packed = new Set(files.map(({ path }) => path));
  for (const page of packed) {
    if (!page.endsWith('.md')) continue;
    const text = await readFile(join(root, 'packages/server', page), 'utf8');
    // Those of templates/ are for a service: they lead to its files, or into its node_modules/.
    const installed = page.startsWith('templates/') ? 'node_modules/contract-server/' : '';
    for (const [, link = ''] of text.matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)) {
      if (!link.startsWith(installed)) continue;
      const target = link.slice(installed.length);
      if (!packed.has(installed ? target : posix.join(posix.dirname(page), target))) {
        console.error(`contract-server: the tarball lacks ${target}, to which ${page} links`);
        process.exitCode = 1;
      }
    }
  }
}
