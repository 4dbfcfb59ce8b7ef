// Reads the nodes of a contract's YAML, and finds what no contract needs, and what would cost others than its author time
// or memory: each takes one step for each node, whatever the text is.
import {
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  type Alias,
  type CST,
  type Document,
  type Node,
  type Scalar,
} from 'yaml';

/** The maximum nesting of objects and arrays. The parser itself would need too much of the stack for more. */
const maxDepth = 1000;
/** The maximum length of a name, and of what is compared with names, such as an operationId, in UTF-16 code units. */
export const maxNameLength = 2000;
/** The maximum length of any other text, in UTF-16 code units. */
const maxTextLength = 1_000_000;
/** The maximum number of anchors and aliases together: the parser compares each alias with all before it. */
const maxAnchors = 10_000;
/** How many characters aliases may stand for altogether. */
const maxRepeated = 10_000_000;

/** Is called with the offset of what is wrong in the text, and with what to do about it. */
type Report = (offset: number, message: string, fix: string) => void;

/** Reports a text that is nested too deeply to be composed. */
export function checkDepth(tokens: readonly CST.Token[], report: Report): void {
  for (const token of tokens) {
    const stack: [CST.Token, depth: number][] = [[token, 0]];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const [one, depth] = next;
      if (depth > maxDepth) {
        report(one.offset, `there are more than ${maxDepth} levels here`, 'Refer to parts of it with $ref');
        return;
      }
      const inner =
        'items' in one
          ? one.items.flatMap(({ key, value }) => [key, value])
          : 'value' in one
            ? [one.value]
            : [];
      for (const part of inner) if (part) stack.push([part, depth + 1]);
    }
  }
}

/** Checks the nodes of a document. Returns what each alias stands for. */
export function checkNodes(document: Document, text: string, report: Report): ReadonlyMap<Alias, Node> {
  const reader = new NodeReader(report);
  const length = reader.lengthOf(document.contents);
  if (length - text.length > maxRepeated)
    report(0, 'aliases stand for too many characters', 'Refer to components with $ref instead');
  if (reader.anchorCount > maxAnchors)
    report(
      0,
      `there are more than ${maxAnchors} anchors and aliases`,
      'Refer to components with $ref instead',
    );
  return reader.targets;
}

class NodeReader {
  readonly targets = new Map<Alias, Node>();
  anchorCount = 0;
  readonly #report: Report;
  readonly #anchors = new Map<string, Node>();
  /** Of nodes with an anchor that are complete: how many characters they have, with what aliases in them stand for. */
  readonly #lengths = new Map<Node, number>();

  constructor(report: Report) {
    this.#report = report;
  }

  lengthOf(node: unknown): number {
    if (isAlias(node)) return this.#lengthOfTarget(node);
    if (!isScalar(node) && !isCollection(node)) return 0;
    if (node.anchor !== undefined) {
      this.anchorCount += 1;
      this.#anchors.set(node.anchor, node);
    }
    const length = isScalar(node) ? this.#lengthOfScalar(node) : this.#lengthOfItems(node);
    if (node.anchor !== undefined) this.#lengths.set(node, length);
    return length;
  }

  #lengthOfTarget(alias: Alias): number {
    this.anchorCount += 1;
    const { source, range } = alias;
    const target = this.#anchors.get(source);
    const length = target && this.#lengths.get(target);
    if (target === undefined) {
      const fix = `Write &${source} before what it stands for, or a text that begins with * in quotes`;
      this.#report(range?.[0] ?? 0, `*${source} stands for nothing`, fix);
    } else if (length === undefined)
      this.#report(
        range?.[0] ?? 0,
        `*${source} is inside of what it stands for`,
        'Refer to a schema with $ref',
      );
    else this.targets.set(alias, target);
    return length ?? 0;
  }

  #lengthOfScalar({ value, range }: Scalar): number {
    const length = typeof value === 'string' ? value.length : 0;
    if (length > maxTextLength)
      this.#report(range?.[0] ?? 0, `the text has more than ${maxTextLength} characters`, 'Shorten it');
    if (typeof value === 'number' && !Number.isFinite(value))
      this.#report(range?.[0] ?? 0, 'JSON has no such number', 'Leave the bound out, or write a number');
    return Math.max(length, range ? range[1] - range[0] : 0);
  }

  #lengthOfItems(node: Extract<Node, { items: unknown[] }>): number {
    const names = new Set<string>();
    let length = 0;
    for (const item of node.items) {
      if (isPair(item)) {
        if (isMap(node)) this.#checkName(item.key, names);
        length += this.lengthOf(item.key) + this.lengthOf(item.value);
      } else length += this.lengthOf(item);
    }
    return length + node.items.length;
  }

  #checkName(key: unknown, names: Set<string>): void {
    const offset = (key as Node | null)?.range?.[0] ?? 0;
    if (!isScalar(key)) {
      this.#report(offset, 'a name must be a text', 'Write a text before the colon');
      return;
    }
    // `<<`, which may be there several times.
    if (typeof key.value === 'symbol') return;
    const name = String(key.value);
    if (name.length > maxNameLength)
      this.#report(offset, `the name has more than ${maxNameLength} characters`, 'Shorten it');
    if (names.has(name))
      this.#report(offset, 'the name is there twice', 'Leave one out, or write in one what is in both');
    names.add(name);
  }
}
