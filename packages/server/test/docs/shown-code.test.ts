// The code that pages show is that of the files in examples/, which tests run.
import { readdirSync, readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';
import { loadContract, renderTypes } from '../support/contract-reader.js';
import { temporaryFolder } from '../support/engines.js';

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

t.test('the first code of the README compiles, with the contract of the guide', async (t) => {
  const folder = await temporaryFolder(t);
  const first = (page: string, language: string) =>
    new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'm').exec(readFileSync(root + page, 'utf8'))![1]!;
  const contract = loadContract(Buffer.from(first('docs/start-your-own.md', 'yaml')));
  await writeFile(join(folder, 'types.gen.ts'), renderTypes(contract));
  await writeFile(join(folder, 'handlers.ts'), first('README.md', 'ts'));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await symlink(join(root, '../../node_modules'), join(folder, 'node_modules'));
  const { NodeNext } = ts.ModuleKind;
  const options = { strict: true, noEmit: true, skipLibCheck: true, module: NodeNext, types: [] };
  const program = ts.createProgram([join(folder, 'handlers.ts')], {
    ...options,
    target: ts.ScriptTarget.ES2022,
  });
  const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText);
  t.strictSame(faults, []);
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
