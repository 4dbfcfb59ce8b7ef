// Parses a contract's text, and collects what is wrong with it: all faults at once, each with its place in the file.
import {
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
} from 'yaml';
import { ContractError, inOrder, pointerOf, type Finding } from './finding.js';

/** The steps from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** The maximum number of repetitions of an anchor's value, with the aliases inside it. */
const maxAliasCount = 10_000;

/** Reports a fault of the text at an offset. */
type Report = (offset: number, message: string, fix: string) => void;

/** The text of a contract, and what has been found in it so far. */
export class ContractText {
  /** The parsed value, with JSON's types only; undefined if the syntax is wrong. */
  readonly value: unknown;
  /** Whether it is written as JSON. */
  readonly isJson: boolean;
  readonly #document: Document | undefined;
  readonly #lines = new LineCounter();
  /** The faults by place and message, since several places may refer to the same faulty one. */
  readonly #faults = new Map<string, Finding>();
  readonly #warnings = new Map<string, Finding>();

  /** @param text - YAML 1.2, which includes JSON. */
  constructor(text: string) {
    this.isJson = text.trimStart().startsWith('{');
    const report: Report = (offset, message, fix) => {
      add(this.#faults, this.#findingAt(offset, '', message, fix));
    };
    try {
      const options = { prettyErrors: false, merge: true, stringKeys: true };
      this.#document = parseDocument(text, { lineCounter: this.#lines, ...options });
      for (const error of this.#document.errors) {
        report(error.pos[0], ...describeMistake(text, error.message, error.code));
        // Further errors only follow from this one.
        if (error.code !== 'DUPLICATE_KEY') break;
      }
      if (this.#faults.size === 0) checkNodes(this.#document, report);
      if (this.#faults.size === 0) this.value = this.#document.toJS({ maxAliasCount });
    } catch (error) {
      // Of aliases that would make the value very large, and of merges that are none.
      report(0, (error as Error).message, 'Refer to components with $ref instead of aliases');
    }
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

  /** @throws ContractError if there are faults. */
  throwFaults(): void {
    if (this.#faults.size > 0) throw new ContractError(inOrder([...this.#faults.values()]), this.warnings);
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
      if (isAlias(node)) node = node.resolve(this.#document!);
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

/** Reports numbers that JSON lacks, and aliases that stand for nothing or for what they are in. */
function checkNodes(document: Document, report: Report): void {
  const anchors = new Map<string, unknown>();
  visit(document, (_, node, ancestors: readonly unknown[]) => {
    const [offset] = (node as Node | null)?.range ?? [0];
    if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value))
      report(offset, 'JSON has no such number', 'Write another number, or leave it out');
    if ((isScalar(node) || isCollection(node)) && node.anchor !== undefined) anchors.set(node.anchor, node);
    if (!isAlias(node)) return;
    const name = node.source;
    const fix = `Write &${name} before what it stands for, or a text that begins with * in quotes`;
    if (!anchors.has(name)) report(offset, `*${name} stands for nothing`, fix);
    else if (ancestors.includes(anchors.get(name)))
      report(offset, `*${name} is inside of what it stands for`, 'Refer to a schema with $ref');
  });
}

function nameOf(key: unknown): string | undefined {
  return isScalar(key) ? String(key.value) : undefined;
}

/** Describes a syntax error, with its remedy. */
function describeMistake(text: string, message: string, code: string): [message: string, fix: string] {
  if (code === 'RESOURCE_EXHAUSTION')
    return ['the text is nested too deeply', 'Refer to parts of it with $ref'];
  if (/^\s*<[!\w]/.test(text))
    return ['this is HTML or XML', 'Write YAML or JSON; if it is a download, get the raw file'];
  if (code === 'MULTIPLE_DOCS') return ['another document begins here', 'Write one document in each file'];
  return [
    message.replace(/\.$/, ''),
    'Correct the indentation or the syntax here or above, or write the text in quotes',
  ];
}

function add(findings: Map<string, Finding>, finding: Finding): void {
  const { line, column, pointer, message } = finding;
  findings.set(`${line}:${column} ${pointer} ${message}`, finding);
}
