// Reads the nodes of a contract's YAML, and finds what no contract needs, and what would cost others than its author time
// or memory: each takes one step for each node, whatever the text is.
import {
  CST,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  type Alias,
  type Document,
  type Node,
  type Scalar,
  type YAMLMap,
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
  for (const token of tokens)
    if (token.type === 'document')
      CST.visit(token, ({ key, value }, { length }) => {
        const inner = key ?? value;
        if (length < maxDepth || !inner) return undefined;
        report(inner.offset, `there are more than ${maxDepth} levels here`, 'Refer to parts of it with $ref');
        return CST.visit.BREAK;
      });
}

/** Checks the nodes of a document. Returns what each alias stands for. */
export function checkNodes(document: Document, report: Report): ReadonlyMap<Alias, Node> {
  const targets = new Map<Alias, Node>();
  const anchors = new Map<string, Node>();
  /** Of nodes with an anchor that are complete: how many characters they have, with what aliases in them stand for. */
  const lengths = new Map<Node, number>();
  let count = 0;
  /** Returns how many characters the aliases in a node stand for. */
  const repeatedIn = (node: unknown): number => {
    if (isPair(node)) return repeatedIn(node.key) + repeatedIn(node.value);
    if (isAlias(node)) return lengthOfTarget(node);
    if (!isScalar(node) && !isCollection(node)) return 0;
    const [start, end] = node.range!;
    if (node.anchor !== undefined) {
      count += 1;
      anchors.set(node.anchor, node);
    }
    if (isScalar(node)) checkScalar(node, report);
    if (isMap(node)) checkNames(node, report);
    let repeated = 0;
    for (const item of isCollection(node) ? node.items : []) repeated += repeatedIn(item);
    if (node.anchor !== undefined) lengths.set(node, end - start + repeated);
    return repeated;
  };
  const lengthOfTarget = (alias: Alias): number => {
    count += 1;
    const { source } = alias;
    const [offset] = alias.range!;
    const target = anchors.get(source);
    const length = target && lengths.get(target);
    if (target === undefined) {
      const fix = `Write &${source} before what it stands for, or a text that begins with * in quotes`;
      report(offset, `*${source} stands for nothing`, fix);
    } else if (length === undefined)
      report(offset, `*${source} is inside of what it stands for`, 'Refer to a schema with $ref');
    else targets.set(alias, target);
    return length ?? 0;
  };
  const fix = 'Refer to components with $ref instead';
  if (repeatedIn(document.contents) > maxRepeated) report(0, 'aliases stand for too many characters', fix);
  if (count > maxAnchors) report(0, `there are more than ${maxAnchors} anchors and aliases`, fix);
  return targets;
}

function checkScalar({ value, range }: Scalar, report: Report): void {
  const [offset] = range!;
  if (typeof value === 'string' && value.length > maxTextLength)
    report(offset, `the text has more than ${maxTextLength} characters`, 'Shorten it');
  if (typeof value === 'number' && !Number.isFinite(value))
    report(offset, 'JSON has no such number', 'Leave the bound out, or write a number');
}

function checkNames({ items }: YAMLMap, report: Report): void {
  const names = new Set<string>();
  for (const { key } of items) {
    const offset = (key as Node | null)?.range?.[0] ?? 0;
    if (!isScalar(key)) report(offset, 'a name must be a text', 'Write a text before the colon');
    // Not `<<`, which may be there several times.
    else if (typeof key.value !== 'symbol') {
      const name = String(key.value);
      if (name.length > maxNameLength)
        report(offset, `the name has more than ${maxNameLength} characters`, 'Shorten it');
      if (names.has(name))
        report(offset, 'the name is there twice', 'Leave one out, or write in one what is in both');
      names.add(name);
    }
  }
}
