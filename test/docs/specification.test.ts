// docs/specification.md: every place in openapi.yaml, every test and every source that it names is there, it has the user's
// specification word for word, and everything that the contract adds to it.
import { createHash } from 'node:crypto';
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

/** A part of an answer or of the service, what the page says of it, and in parentheses where it is and what shows it. */
interface Item {
  readonly name: string;
  readonly text: string;
  readonly proof: string;
}

/** The items of a part of the page. */
const itemsOf = (part = ''): Item[] =>
  [...part.matchAll(/^- (\*\*.*(?:\n {2}.*)*)/gm)].map(([, item = '']) => {
    const [, name = '', text = '', proof = ''] =
      /^\*\*(.+?)\*\*: (.*?) \(((?:[^()]|\]\([^)]*\)|\(`)*)\)$/.exec(item.replaceAll(/\s+/g, ' ')) ?? [];
    return { name: name || item, text, proof };
  });
const [, answers = '', rest = ''] = page.split(/^(?=## 1\. |## What it is made of$)/m);
const statements = itemsOf(answers);
const parts = itemsOf(rest.split('## Where it departs')[0]);

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

/** The number of tests whose names begin with these words. */
const testsOf = (source: string, name: string) =>
  [...source.matchAll(/\btest\(\s*(['"`])/g)].filter(({ index, 0: { length } }) =>
    source.startsWith(name, index + length),
  ).length;

t.test('every statement names places of openapi.yaml that exist', (t) => {
  t.ok(statements.length > 50, `${statements.length} statements`);
  for (const { name, text, proof } of statements) {
    t.ok(text.length > 0, name);
    for (const [, place = ''] of proof.matchAll(/`([^`]+)`/g))
      t.not(findPlace(place), undefined, `${name}: ${place}`);
  }
  t.end();
});

/** Checks that there is one test, or a script of package.json, for each item. */
function checkTests(t: Test, items: readonly Item[]) {
  for (const { name, proof } of items) {
    const links = [...proof.matchAll(/\[([^\]]+)\]\[(\w+)\]/g)];
    const commands = [...proof.matchAll(/`npm (?:run )?([\w:]+)`/g)];
    t.ok(links.length + commands.length > 0, `${name} has a test`);
    for (const [, title = '', label = ''] of links)
      t.equal(testsOf(read(references.get(label)!), title.replace('…', '')), 1, `${name}: ${title}`);
    for (const [, command = ''] of commands) t.ok(command in scripts, `${name}: ${command}`);
  }
  t.end();
}

t.test('every statement names tests that exist', (t) => {
  checkTests(t, statements);
});

t.test('every part names tests or commands that exist', (t) => {
  checkTests(t, parts);
});

t.test("the quotes are the user's specification, word for word", (t) => {
  const quotes = [...page.matchAll(/^>(.*)$/gm)].map(([, line]) => line).join(' ');
  // Rows below the heads of tables are as long as their columns.
  const words = quotes.replaceAll(/-{3,}/g, '---').split(/[\s|]+/);
  t.equal(words.length, 569);
  t.equal(createHash('sha256').update(words.join(' ')).digest('hex').slice(0, 16), 'a5e3efb6abb0ff33');
  t.end();
});

t.test('the page names all parameters, statuses and headers that the contract adds', (t) => {
  const [, added = ''] = /\*\*What the contract adds\.\*\*([^]*?)^>/m.exec(page) ?? [];
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
  for (const { name, proof } of parts) {
    const [, path = '', excerpt = ''] = /\]\(\.\.\/([^)]+)\) `(.+?)`;/.exec(proof)!;
    const files = statSync(join(root, path)).isFile()
      ? [path]
      : readdirSync(join(root, path), { recursive: true, encoding: 'utf8' })
          .map((file) => join(path, file))
          .filter((file) => statSync(join(root, file)).isFile());
    t.ok(
      files.some((file) => read(file).includes(excerpt)),
      `${name}: ${excerpt} is in ${path}`,
    );
  }
  t.end();
});
