// Parses a contract's text, and collects what is wrong with it: all faults at once, each with its place in the file.
import {
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  parseDocument,
  type Document,
} from 'yaml';

/** The steps from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** How many steps there are to a component, as in /components/schemas/Bed. */
const componentDepth = 3;

/** What is wrong with a contract, or worth a warning, and where. */
export interface Finding {
  /** A JSON Pointer (RFC 6901); empty for the whole document. */
  readonly pointer: string;
  /** The place in the file; both count from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** What to write instead. */
  readonly fix: string;
}

/** The contract has faults; the message lists all of them, one per line. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
  readonly faults: readonly Finding[];
  readonly warnings: readonly Finding[];

  constructor(faults: readonly Finding[], warnings: readonly Finding[]) {
    super(['The contract cannot be served:', ...faults.map(formatFinding)].join('\n'));
    this.faults = faults;
    this.warnings = warnings;
  }
}

/** Formats a finding as one line: `12:3 /paths: must be an object. Write …`. */
export function formatFinding({ line, column, pointer, message, fix }: Finding): string {
  return `${line}:${column} ${pointer === '' ? '/' : pointer}: ${message}. ${fix}.`;
}

/** The text of a contract, and what has been found in it so far. */
export class ContractText {
  /** The parsed value, with JSON's types only; undefined if the syntax is wrong. */
  readonly value: unknown;
  readonly #document: Document;
  readonly #lines = new LineCounter();
  /** The components that something refers to, by their paths. */
  readonly #referred = new Set<string>();
  /** By place and message, since several places may refer to one. */
  readonly #faults = new Map<string, Finding>();
  readonly #warnings = new Map<string, Finding>();

  /** @param text - YAML 1.2, of which JSON is a subset. */
  constructor(text: string) {
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, merge: true });
    for (const { message: given, code, pos } of this.#document.errors) {
      const { line, col: column } = this.#lines.linePos(pos[0]);
      const isSecond = code === 'MULTIPLE_DOCS';
      const message = isSecond ? 'another document begins here' : given.replace(/\.$/, '');
      const fix = isSecond ? 'Write one document in each file' : 'Correct the syntax of YAML or JSON';
      add(this.#faults, { pointer: '', line, column, message, fix });
    }
    if (this.#faults.size > 0) return;
    try {
      this.value = this.#document.toJS();
    } catch (error) {
      // Aliases that would expand to very many nodes.
      this.fault([], (error as Error).message, 'Write the values out instead of using aliases');
    }
  }

  /** Remembers that something refers to a place in a component. */
  refer(path: Path): void {
    this.#referred.add(JSON.stringify(path.slice(0, componentDepth)));
  }

  /** Whether something refers to a component, or to a place in it. */
  isReferred(path: Path): boolean {
    return this.#referred.has(JSON.stringify(path));
  }

  fault(path: Path, message: string, fix: string): void {
    add(this.#faults, this.find(path, message, fix));
  }

  warn(path: Path, message: string, fix: string): void {
    add(this.#warnings, this.find(path, message, fix));
  }

  get warnings(): Finding[] {
    return sorted(this.#warnings);
  }

  /** @throws ContractError if there are faults. */
  throwFaults(): void {
    if (this.#faults.size > 0) throw new ContractError(sorted(this.#faults), this.warnings);
  }

  /** Describes a finding, without adding it. */
  find(path: Path, message: string, fix: string): Finding {
    const pointer = path
      .map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`)
      .join('');
    const { line, col: column } = this.#lines.linePos(this.#offset(path));
    return { pointer, line, column, message, fix };
  }

  /** The position of the key or item at the end of a path, or of the last one that exists. */
  #offset(path: Path): number {
    let node: unknown = this.#document.contents;
    let offset = 0;
    for (const step of path) {
      if (isAlias(node)) node = node.resolve(this.#document);
      if (!isCollection(node)) break;
      const found: unknown = isMap(node)
        ? node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === String(step))
        : node.items[Number(step)];
      const at: unknown = isPair(found) ? found.key : found;
      offset = (at as { range?: [number] } | undefined)?.range?.[0] ?? offset;
      node = isPair(found) ? found.value : found;
    }
    return offset;
  }
}

function add(findings: Map<string, Finding>, finding: Finding): void {
  findings.set(`${finding.pointer} ${finding.message}`, finding);
}

function sorted(findings: ReadonlyMap<string, Finding>): Finding[] {
  return [...findings.values()].sort((a, b) => a.line - b.line || a.column - b.column);
}
