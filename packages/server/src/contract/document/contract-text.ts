// Parses a contract's text, and collects what is wrong with it: all faults at once, each with its place in the file.
import {
  Composer,
  CST,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  Parser,
  visit,
  type Alias,
  type Document,
  type ErrorCode,
  type Node,
  type YAMLParseError,
} from 'yaml';
import { ContractError, inOrder, pointerOf, type Finding } from './finding.js';

/** The steps from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** The maximum nesting of objects and arrays. */
const maxDepth = 1000;
/** The maximum number of repetitions of an anchor's value, with the aliases inside it. */
const maxAliasCount = 10_000;
/** The number of steps to a component, as in /components/schemas/Bed. */
const componentDepth = 3;

type Mistake = Pick<YAMLParseError, 'message' | 'code'>;

/** Remedies for mistakes in YAML, by the parser's error codes. */
const remedies: Partial<Record<ErrorCode, string>> = {
  BAD_INDENT: 'Correct the indentation here or above, or close the { or [ above',
  BAD_SCALAR_START: 'Write the text in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'Write the whole text in quotes, or correct the indentation of this line or the next',
  DUPLICATE_KEY: 'Leave one out, or write in one what is in both',
  MULTILINE_IMPLICIT_KEY: 'Write a colon and a space after the name',
  TAB_AS_INDENT: 'Indent it with spaces',
  UNEXPECTED_TOKEN: 'Write the whole text in double quotes',
};

/** The text of a contract, and what has been found in it so far. */
export class ContractText {
  /** The parsed value, with JSON's types only; undefined if the syntax is wrong. */
  readonly value: unknown;
  /** Whether it is written as JSON. */
  readonly isJson: boolean;
  readonly #document: Document | undefined;
  readonly #lines = new LineCounter();
  /** The nodes that aliases stand for. */
  readonly #targets = new Map<Alias, Node>();
  /** The components that something refers to, by their paths. */
  readonly #referred = new Set<string>();
  /** The faults by place and message, since several places may refer to the same faulty one. */
  readonly #faults = new Map<string, Finding>();
  readonly #warnings = new Map<string, Finding>();

  /** @param text - YAML 1.2, which includes JSON. */
  constructor(text: string) {
    this.isJson = text.trimStart().startsWith('{');
    const tokens = [...new Parser(this.#lines.addNewLine).parse(text)];
    for (const token of tokens) this.#checkDepth(token);
    if (this.#faults.size > 0) return;
    const composer = new Composer({ prettyErrors: false, merge: true, uniqueKeys: isSameName });
    const [document, another] = composer.compose(tokens, true, text.length);
    this.#document = document!;
    for (const error of this.#document.errors) {
      this.#report(error.pos[0], ...describeMistake(text, error));
      // Further errors only follow from this one.
      if (error.code !== 'DUPLICATE_KEY') break;
    }
    if (another !== undefined)
      this.#report(another.range[0], 'another document begins here', 'Write one document in each file');
    if (this.#faults.size === 0) this.#checkNodes(this.#document);
    if (this.#faults.size === 0) this.value = this.#readValue(this.#document);
  }

  /** Reports nesting that is too deep for the parser, which would exhaust the stack. */
  #checkDepth(token: CST.Token): void {
    if (token.type !== 'document') return;
    CST.visit(token, ({ key, value }, { length }) => {
      const inner = key ?? value;
      if (length < maxDepth || !inner) return undefined;
      this.#report(
        inner.offset,
        `there are more than ${maxDepth} levels here`,
        'Refer to parts of it with $ref',
      );
      return CST.visit.BREAK;
    });
  }

  /** Reports values that JSON lacks, and finds the nodes that aliases stand for. */
  #checkNodes(document: Document): void {
    const anchors = new Map<string, Node>();
    visit(document, (key, node, ancestors) => {
      const [offset] = (node as Node | null)?.range ?? [0];
      if (key === 'key' && !isScalar(node))
        this.#report(offset, 'a name must be a text', 'Write a text before the colon');
      if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value))
        this.#report(offset, 'JSON has no such number', 'Write another number, or leave it out');
      if (isAlias(node)) this.#resolve(node, anchors.get(node.source), ancestors);
      else if ((isScalar(node) || isCollection(node)) && node.anchor !== undefined)
        anchors.set(node.anchor, node);
    });
  }

  #resolve(alias: Alias, target: Node | undefined, ancestors: readonly unknown[]): void {
    const { source, range } = alias;
    if (target === undefined) {
      const fix = `Write &${source} before what it stands for, or a text that begins with * in quotes`;
      this.#report(range![0], `*${source} stands for nothing`, fix);
    } else if (ancestors.includes(target))
      this.#report(range![0], `*${source} is inside of what it stands for`, 'Refer to a schema with $ref');
    else this.#targets.set(alias, target);
  }

  #readValue(document: Document): unknown {
    try {
      return document.toJS({ maxAliasCount });
    } catch (error) {
      this.#report(0, (error as Error).message, 'Refer to components with $ref instead of aliases');
      return undefined;
    }
  }

  #report(offset: number, message: string, fix: string): void {
    add(this.#faults, this.#findingAt(offset, '', message, fix));
  }

  /** Remembers that something refers to a place in a component. */
  refer(path: Path): void {
    this.#referred.add(pointerOf(path.slice(0, componentDepth)));
  }

  /** Whether something refers to a component, or to a place in it. */
  isReferred(path: Path): boolean {
    return this.#referred.has(pointerOf(path));
  }

  fault(path: Path, message: string, fix: string): void {
    add(this.#faults, this.find(path, message, fix));
  }

  warn(path: Path, message: string, fix: string): void {
    add(this.#warnings, this.find(path, message, fix));
  }

  /** The warnings at places without a fault. A faulty place must change anyway. */
  get warnings(): Finding[] {
    const places = new Set(Array.from(this.#faults.values(), ({ pointer }) => pointer));
    return inOrder([...this.#warnings.values()]).filter(({ pointer }) => !places.has(pointer));
  }

  /**
   * @param findMore - Returns more faults; called only if there are some.
   * @throws ContractError if there are faults.
   */
  throwFaults(findMore: () => readonly Finding[] = () => []): void {
    if (this.#faults.size === 0) return;
    throw new ContractError(inOrder([...this.#faults.values(), ...findMore()]), this.warnings);
  }

  /** Describes a finding, without adding it. */
  find(path: Path, message: string, fix: string): Finding {
    return this.#findingAt(this.#locate(path), pointerOf(path), message, fix);
  }

  #findingAt(offset: number, pointer: string, message: string, fix: string): Finding {
    const { line, col: column } = this.#lines.linePos(offset);
    return { pointer, line, column, message, fix };
  }

  /** The position of the key or item at the end of a path, or of the last one that exists. */
  #locate(path: Path): number {
    let node: unknown = this.#document?.contents;
    let offset = 0;
    for (const step of path) {
      if (isAlias(node)) node = this.#targets.get(node);
      if (!isCollection(node)) break;
      const item: unknown = isMap(node)
        ? node.items.find(({ key }) => nameOf(key) === String(step))
        : node.items[Number(step)];
      const place = (isPair(item) ? item.key : item) as Node | undefined;
      offset = place?.range?.[0] ?? offset;
      node = isPair(item) ? item.value : item;
    }
    return offset;
  }
}

function nameOf(key: unknown): string | undefined {
  return isScalar(key) ? String(key.value) : undefined;
}

/** Whether two keys are the same name in JSON; merges may be there several times. */
function isSameName(one: unknown, other: unknown): boolean {
  return nameOf(one) === nameOf(other) && isScalar(one) && typeof one.value !== 'symbol';
}

/** Describes a syntax error, with its remedy. */
function describeMistake(text: string, { message, code }: Mistake): [message: string, fix: string] {
  if (/^\s*<[!\w]/.test(text))
    return ['this is HTML or XML', 'Write YAML or JSON; if it is a download, get the raw file'];
  const fix = remedies[code] ?? 'Correct the syntax of YAML or JSON here, or above';
  return [message.replace(/\.$/, ''), fix];
}

function add(findings: Map<string, Finding>, finding: Finding): void {
  const { line, column, pointer, message } = finding;
  findings.set(`${line}:${column} ${pointer} ${message}`, finding);
}
