// Parses a contract's text, and collects what is wrong with it: all faults at once, each with its place in the file.
import {
  Composer,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  Parser,
  type Alias,
  type Document,
  type Node,
  type Pair,
  type YAMLMap,
  type YAMLParseError,
} from 'yaml';
import { ContractError, inOrder, pointerOf, type Finding } from './finding.js';
import { checkDepth, checkNodes } from './yaml-nodes.js';

/** The steps from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** How many steps there are to a component, as in /components/schemas/Bed. */
const componentDepth = 3;
/** How many faults, and how many warnings, are kept. */
const maxFindings = 10_000;
/** How many characters of a place, a message or a remedy are kept: names may be long, and paths have many. */
const maxShown = 4000;

type Mistake = Pick<YAMLParseError, 'message' | 'code' | 'pos'>;

/** The mistakes in YAML that authors make most, by the code and the message of the parser: what is wrong, and a remedy. */
const mistakes: readonly [RegExp, message: string, fix: string][] = [
  [/^TAB_AS_INDENT/, 'a line is indented with a tab', 'Indent it with spaces'],
  [
    /^BAD_INDENT Flow/,
    'a { or [ is not closed',
    'Write the } or ] that is missing, or indent its lines more',
  ],
  [
    /^BAD_INDENT/,
    'the indentation differs from that of the lines above',
    'Correct it here, or in the lines above',
  ],
  [
    /^BLOCK_AS_IMPLICIT_KEY/,
    'a value contains another "name: value"',
    'Write the whole text in quotes, or correct the indentation of this line or the next',
  ],
  [
    /^(MULTILINE_IMPLICIT_KEY|MISSING_CHAR Implicit map keys)/,
    'this is not "name: value"',
    'Write a colon and a space after the name',
  ],
  [
    /^UNEXPECTED_TOKEN .*at node end/,
    'there is more after the value',
    'Write the whole text in double quotes',
  ],
  [/^BAD_SCALAR_START/, 'a text cannot begin with this character', 'Write the text in quotes'],
];

/** The text of a contract, and what has been found in it so far. */
export class ContractText {
  /** The parsed value, with JSON's types only; undefined if the syntax is wrong. */
  readonly value: unknown;
  readonly #document: Document | undefined;
  readonly #lines = new LineCounter();
  /** What aliases stand for. */
  readonly #targets: ReadonlyMap<Alias, Node> = new Map();
  /** The members of maps, by their names. */
  readonly #members = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();
  /** The components that something refers to, by their paths. */
  readonly #referred = new Set<string>();
  /** By place and message, since several places may refer to one. */
  readonly #faults = new Map<string, Finding>();
  readonly #warnings = new Map<string, Finding>();

  /** @param text - YAML 1.2, which includes JSON. */
  constructor(text: string) {
    const report = (offset: number, message: string, fix: string) => {
      add(this.#faults, this.#findingAt(offset, '', message, fix));
    };
    const tokens = [...new Parser(this.#lines.addNewLine).parse(text)];
    checkDepth(tokens, report);
    if (this.#faults.size > 0) return;
    const composer = new Composer({ prettyErrors: false, merge: true, uniqueKeys: false });
    const [document, another] = composer.compose(tokens, true, text.length);
    this.#document = document!;
    // After the first error of syntax, others only follow from it.
    const [error] = this.#document.errors;
    if (error !== undefined) report(error.pos[0], ...describeMistake(text, error));
    else if (another === undefined) this.#targets = checkNodes(this.#document, report);
    else report(another.range[0], 'another document begins here', 'Write one document in each file');
    if (this.#faults.size === 0) this.value = this.#document.toJS({ maxAliasCount: -1 });
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
    this.#keep(this.#faults, path, message, fix);
  }

  warn(path: Path, message: string, fix: string): void {
    this.#keep(this.#warnings, path, message, fix);
  }

  #keep(findings: Map<string, Finding>, path: Path, message: string, fix: string): void {
    if (findings.size < maxFindings) add(findings, this.find(path, message, fix));
    else add(findings, this.find([], `there are more than ${maxFindings}`, 'Correct the others first'));
  }

  /** Whether faults are no longer kept, so that nobody need look for their remedies. */
  get isFull(): boolean {
    return this.#faults.size >= maxFindings;
  }

  /** Those at places without a fault: what is there now must change. */
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
    return this.#findingAt(this.#locate(path).offset, pointerOf(path), message, fix);
  }

  #findingAt(offset: number, ...texts: [pointer: string, message: string, fix: string]): Finding {
    const { line, col: column } = this.#lines.linePos(offset);
    const [pointer, message, fix] = texts.map(shortened) as typeof texts;
    return { pointer, line, column, message, fix };
  }

  /** Whether a field is what follows a comma in a text without quotes, as in `{ description: Red, or green }`. */
  isRest(path: Path): boolean {
    const { pair, isFlow } = this.#locate(path);
    return isFlow && pair?.value === null;
  }

  /** The position of the key or item at the end of a path, or of the last one that exists. */
  #locate(path: Path): { offset: number; pair: Pair | undefined; isFlow: boolean } {
    let node: unknown = this.#document?.contents;
    let offset = 0;
    let pair: Pair | undefined;
    let isFlow = false;
    for (const step of path) {
      if (isAlias(node)) node = this.#targets.get(node);
      if (!isCollection(node)) break;
      const found: unknown = isMap(node) ? this.#membersOf(node).get(String(step)) : node.items[Number(step)];
      isFlow = node.flow === true;
      pair = isPair(found) ? found : undefined;
      const at: unknown = pair?.key ?? found;
      offset = (at as { range?: [number] } | undefined)?.range?.[0] ?? offset;
      node = pair ? pair.value : found;
    }
    return { offset, pair, isFlow };
  }

  #membersOf(map: YAMLMap): ReadonlyMap<string, Pair> {
    const known = this.#members.get(map);
    if (known !== undefined) return known;
    const members = new Map(
      map.items.map((pair) => [isScalar(pair.key) ? String(pair.key.value) : '', pair]),
    );
    this.#members.set(map, members);
    return members;
  }
}

function shortened(text: string): string {
  return text.length <= maxShown ? text : `${text.slice(0, maxShown)}…`;
}

/** Describes an error of syntax, and what to do about it. */
function describeMistake(text: string, { message, code, pos }: Mistake): [message: string, fix: string] {
  if (/^\s*<[!\w]/.test(text))
    return ['this is HTML or XML', 'Write YAML or JSON; if it is a download, get the raw file'];
  const line = text.slice(text.lastIndexOf('\n', pos[0] - 1) + 1, pos[1]);
  if (/^([<=>])\1{6}/.test(line)) return ['a merge left a mark of its conflict here', 'Resolve the conflict'];
  const known = mistakes.find(([pattern]) => pattern.test(`${code} ${message}`));
  if (known !== undefined) return [known[1], known[2]];
  return [message.replace(/\.$/, ''), 'Correct the syntax of YAML or JSON here, or above'];
}

function add(findings: Map<string, Finding>, finding: Finding): void {
  const { line, column, pointer, message } = finding;
  findings.set(`${line}:${column} ${pointer} ${message}`, finding);
}
