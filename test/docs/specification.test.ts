// docs/specification.md: every place in openapi.yaml, every test and every source that it names is there, and it names
// every section of the user's specification, and everything that the contract adds to it.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { partOf } from '../../packages/server/test/support/edited.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const page = read('docs/specification.md');
/** The scripts of package.json by their names. */
const { scripts } = JSON.parse(read('package.json')) as { scripts: object };
const document = parse(read('openapi.yaml')) as Node;

/** An object or array of the contract, by its keys. */
type Node = Readonly<Record<string, unknown>>;

/** The sections of the page, with the cells of their rows. */
const sections = page
  .split(/^## /m)
  .slice(1)
  .map((section) => ({
    title: section.slice(0, section.indexOf('\n')),
    rows: [...section.matchAll(/^\| (?!-|\[sections? |the card )(.*) \|$/gm)].map(([, row = '']) =>
      row.split(' | ').map((cell) => cell.trim()),
    ),
  }));
const statements = sections.filter(({ title }) => title !== 'What it is made of').flatMap(({ rows }) => rows);
const parts = sections.find(({ title }) => title === 'What it is made of')?.rows ?? [];

/** The files of the page's references, by their labels, without the folder of the page. */
const references = new Map(
  [...page.matchAll(/^\[(\w+)\]: \.\.\/(\S+)$/gm)].map(([, label = '', path = '']) => [label, path]),
);

/** The operations of the contract by their ids. */
const operations = Object.fromEntries(
  Object.values(document['paths'] as Record<string, Record<string, Operation>>)
    .flatMap((item) => Object.values(item))
    .map((operation) => [operation.operationId, operation]),
);
interface Operation {
  readonly operationId: string;
  readonly parameters: readonly (Node | { readonly name: string })[];
  readonly responses: Readonly<Record<string, Node>>;
}

/** The operations and components of the contract by their names, and its other parts by their keys. */
const roots: Node = {
  ...document,
  ...(Object.assign({}, ...Object.values(document['components'] as Record<string, Node>)) as Node),
  ...operations,
};

/** Returns the part that a reference refers to, or else the same part. */
function resolve(part: unknown): unknown {
  const { $ref } = part as { $ref?: string };
  return $ref === undefined ? part : partOf(document, $ref.slice(1));
}

/** Finds a place of the contract by its path: a parameter by its name, and what a reference refers to in its place. */
function findPlace(path: string): unknown {
  return path.split('.').reduce<unknown>((node, key) => {
    const part = resolve(node);
    if (!Array.isArray(part)) return (part as Node | undefined)?.[key];
    return (part as Node[]).find(({ name }) => name === key) ?? (part as unknown[])[Number(key)];
  }, roots);
}

/** Whether a test has this name, in the quotes of either kind. */
const hasTest = (source: string, name: string) =>
  [`'${name}'`, `"${name}"`, `\`${name}\``].some((quoted) => source.includes(`test(${quoted}`)) ||
  new RegExp(`test\\(\\s+['"\`]${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}['"\`]`).test(source);

t.test('every statement names places of openapi.yaml that exist', (t) => {
  t.ok(statements.length > 55, `${statements.length} statements`);
  for (const [statement = '', decision = '', places = ''] of statements) {
    t.ok(decision.length > 0, statement);
    for (const [, place = ''] of places.matchAll(/`([^`]+)`/g))
      t.not(findPlace(place), undefined, `${statement}: ${place}`);
  }
  t.end();
});

/** Checks that there is a test, or a script of package.json, for each row of a table. */
function checkTests(t: Test, rows: readonly string[][]) {
  for (const [statement = '', , , tests = ''] of rows) {
    const links = [...tests.matchAll(/\[([^\]]+)\]\[(\w+)\]/g)];
    const commands = [...tests.matchAll(/`npm (?:run )?([\w:]+)`/g)];
    t.ok(links.length + commands.length > 0, `${statement} has a test`);
    for (const [, name = '', label = ''] of links)
      t.ok(hasTest(read(references.get(label)!), name), `${statement}: ${name}`);
    for (const [, name = ''] of commands) t.ok(name in scripts, `${statement}: ${name}`);
  }
  t.end();
}

t.test('every statement names tests that exist', (t) => {
  checkTests(t, statements);
});

t.test('every part names tests or commands that exist', (t) => {
  checkTests(t, parts);
});

t.test("every section of the user's specification is answered", (t) => {
  const headings = [...read('docs/user-specification.md').matchAll(/^###? (\d.*)$/gm)];
  t.ok(headings.length > 12);
  for (const [, heading = ''] of headings) {
    const anchor = heading.toLowerCase().replaceAll('.', '').replaceAll(' ', '-');
    // The operations are the parts of the fourth one.
    if (!heading.startsWith('4. ')) t.ok(page.includes(`(user-specification.md#${anchor})`), heading);
  }
  t.end();
});

t.test('the page names all parameters, statuses and headers that the contract adds', (t) => {
  const [, added = ''] = /\*\*What the contract adds\.\*\*([^]*?)^## /m.exec(page) ?? [];
  const rows = [...added.matchAll(/^\| `(\w+)` +\| (.*?) +\| (.*?) +\|$/gm)].map((row) => row.slice(1));
  /** The parameters, by a name where the specification has none, and statuses that it shows. */
  const shown = ['listPlants limit', 'deletePlant id', 'createPlant 200', 'createPlant 400'];
  const expected = Object.entries(operations).map(([id, { parameters, responses }]) => {
    const names = parameters.map((parameter) => (resolve(parameter) as { name: string }).name);
    const isAdded = (name: string) => !shown.includes(`${id} ${name}`);
    return [
      id,
      names
        .filter(isAdded)
        .map((name) => `\`${name}\``)
        .join(', '),
      Object.keys(responses).filter(isAdded).join(', '),
    ];
  });
  t.strictSame(rows, expected);
  const [, list = ''] = /^- Headers of responses: ([^]*?)\.$/m.exec(added) ?? [];
  const headers = Object.values(operations).flatMap(({ responses }) =>
    Object.values(responses).flatMap((response) =>
      Object.keys((resolve(response) as { headers: object }).headers),
    ),
  );
  t.strictSame(
    [...list.matchAll(/`([\w-]+)`/g)].map(([, name]) => name).sort(),
    [...new Set(headers)].sort(),
  );
  t.end();
});

t.test('every part is where the page says', (t) => {
  t.ok(parts.length > 10);
  for (const [part, , where = ''] of parts) {
    const [, path = '', excerpt = ''] = /\]\(\.\.\/([^)]+)\) `(.+)`$/.exec(where)!;
    const files = statSync(join(root, path)).isFile()
      ? [path]
      : readdirSync(join(root, path), { recursive: true, encoding: 'utf8' })
          .map((file) => join(path, file))
          .filter((file) => statSync(join(root, file)).isFile());
    t.ok(
      files.some((file) => read(file).includes(excerpt)),
      `${part}: ${excerpt} is in ${path}`,
    );
  }
  t.end();
});
