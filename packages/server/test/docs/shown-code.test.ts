// The code that pages show is that of the files in examples/, which tests run.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../../', import.meta.url));
const examples = `${root}test/examples/`;
/** Code without its form, which depends on how wide the page is. */
const withoutForm = (code: string) => code.replace(/\s+/g, '');

t.test('each piece of code of a page is in a file that the page links', (t) => {
  for (const page of ['recipes.md', 'login.md', 'own-database.md', 'extend.md']) {
    const text = readFileSync(`${root}docs/${page}`, 'utf8');
    const linked = [...text.matchAll(/\]\(\.\.\/test\/examples\/([\w./-]+\.ts)\)/g)].map(([, file = '']) =>
      withoutForm(readFileSync(examples + file, 'utf8')),
    );
    for (const [, code = ''] of text.matchAll(/^```ts\n([^]*?)^```$/gm))
      t.ok(
        linked.some((file) => file.includes(withoutForm(code))),
        `${page}: ${code}`,
      );
  }
  t.end();
});

t.test('each example is linked by a page', (t) => {
  const pages = readdirSync(`${root}docs`).map((page) => readFileSync(`${root}docs/${page}`, 'utf8'));
  for (const file of readdirSync(examples, { recursive: true, encoding: 'utf8' }))
    if (/\.(ts|yaml)$/.test(file))
      t.ok(
        pages.some((page) => page.includes(`](../test/examples/${file})`)),
        file,
      );
  t.end();
});

t.test('each test that a comment of the source names exists', (t) => {
  const named: string[] = [];
  for (const file of readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const source = readFileSync(`${root}src/${file}`, 'utf8').replaceAll(/\s*\n\s*\*\s+/g, ' ');
    for (const [, path = '', titles = ''] of source.matchAll(/ Test: (\S+\.ts),((?: (?:and )?"[^"]+")+)/g)) {
      const tests = readFileSync(root + path, 'utf8');
      for (const [, title = ''] of titles.matchAll(/"([^"]+?)(?: \.\.\.)?"/g)) {
        named.push(title);
        t.match(tests, `'${title}`, `${file}: ${title}`);
      }
    }
  }
  t.equal(named.length, 1);
  t.end();
});
