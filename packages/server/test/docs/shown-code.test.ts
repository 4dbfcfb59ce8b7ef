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

t.test('the code of the README is that of the guide, which another test follows', (t) => {
  const [readme = '', guide = ''] = ['README.md', 'docs/start-your-own.md'].map((page) =>
    readFileSync(root + page, 'utf8'),
  );
  const [, code = ''] = /^```ts\n([^]*?)^```$/m.exec(readme) ?? [];
  t.not(code, '');
  t.ok(withoutForm(guide).includes(withoutForm(code)));
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
