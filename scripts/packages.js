// Checks the packages as they are published: what their package.json promises is there, with types for every way to import.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
