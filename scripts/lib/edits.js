// Lets servers run with edited modules, for controls and comparisons: a proof must notice the fault of such a server.
import { readFileSync } from 'node:fs';

/** A text of a module of the server's build, and what takes its place. @typedef {{ file: string, text: string, by: string }} Edit */

/** With it, SQLite commits each write of a transaction by itself. @type {Edit} */
export const torn = {
  file: 'storage/sqlite/committer.js',
  text: "this.#tableOf(collection).make({ collection, subject, id, when: 'any', text });",
  by: `{
    this.#tableOf(collection).make({ collection, subject, id, when: 'any', text });
    this.#database.exec('COMMIT');
    this.#database.exec('BEGIN IMMEDIATE');
  }`,
};

/**
 * An option of Node.js that replaces texts in the modules of the server.
 * @param {...Edit} edits
 * @throws {Error} when a text is not in the build.
 */
export function edited(...edits) {
  const all = edits.map(({ file, text, by }) => {
    const url = new URL(`../../packages/server/dist/${file}`, import.meta.url);
    if (readFileSync(url, 'utf8').split(text).length !== 2)
      throw new Error(`a control must be adapted: ${file} has not once: ${text}`);
    return { url: url.href, text, by };
  });
  // Some versions of Node.js share the hooks between threads, so that they see what they have replaced.
  const mark = '// edited';
  const hooks = `export const load = async (url, context, next) => {
    const loaded = await next(url, context);
    const edits = ${JSON.stringify(all)}.filter((edit) => edit.url === url);
    let source = String(loaded.source);
    if (edits.length === 0 || source.startsWith('${mark}')) return loaded;
    for (const { text, by } of edits) source = source.replace(text, () => by);
    return { ...loaded, source: '${mark}\\n' + source };
  }`;
  const url = `data:text/javascript,${encodeURIComponent(hooks)}`;
  const code = `import { register } from 'node:module'; register(${JSON.stringify(url)})`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
}
