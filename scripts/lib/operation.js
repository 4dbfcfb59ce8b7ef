// Copies the pages and files for operators into contract-server, for the operators of services in other repositories.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';

const target = 'packages/server/dist/operation';
const pages = [
  ...['operate', 'containers', 'postgres', 'identity-provider', 'monitor', 'runbook', 'restore'],
  ...['behavior', 'limits'],
].map((name) => `docs/${name}.md`);
const others = ['deploy', 'compose.yaml', 'Dockerfile'];

/** Links that lead out of the copy become their text. Its folders are those of the repository, so the other links hold. */
export function copyOperation() {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(join(target, 'docs'), { recursive: true });
  for (const page of pages) {
    const text = readFileSync(page, 'utf8').replaceAll(
      /\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)/g,
      (link, label, path, place = '') => {
        const file = posix.join(posix.dirname(page), path);
        if (file.startsWith('packages/server/'))
          return `[${label}](${posix.relative(posix.dirname(`${target}/${page}`), file)}${place})`;
        return pages.includes(file) || others.includes(file.split('/')[0] ?? '') ? link : label;
      },
    );
    writeFileSync(join(target, page), text);
  }
  for (const file of others) cpSync(file, join(target, file), { recursive: true });
}
