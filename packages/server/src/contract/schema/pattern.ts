// Matches texts with the patterns of a contract, in a time that is linear in the length of the text: by RE2, since Node.js
// matches by backtracking, which can take hours for a short text.
import type { AST } from '@eslint-community/regexpp';
import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';

/**
 * The maximum size of a pattern. Each character is compared with all its parts, and a repeated part counts each time.
 */
const maxSize = 10_000;
/** The greatest length of a pattern as it is written for RE2, which takes classes such as \p{L} by their ranges. */
const maxText = 1_000_000;
/** The greatest length of a pattern for Node.js, which finds only when it matches that it cannot compile a pattern. */
const maxPlain = 1_000;
/** The maximum product of nested repetition counts that RE2 accepts. */
const maxCount = 1_000;
/** The maximum number of characters that Node.js compares again for each character of a text. */
const maxAgain = 16;
const maxCode = 0x10ffff;

// Loaded only for a contract that has patterns, or one that needs RE2.
const load = createRequire(import.meta.url);

/** Why a pattern cannot be matched. */
export class PatternError extends Error {
  /** The remedy. */
  readonly fix: string;

  constructor(message: string, fix: string) {
    super(message);
    this.fix = fix;
  }
}

/** A pattern that RE2 matches. An unpaired surrogate in a text is a character, as for ECMAScript. */
export class LinearPattern {
  /** The maximum number of parts that a character is compared with. */
  readonly size: number;
  readonly #source: string;
  readonly #parts: readonly { readonly program: RE2JS; readonly isAbsent: boolean }[];

  /** @throws PatternError */
  constructor(source: string, pattern: AST.Pattern) {
    const { RE2JS } = load('re2js') as typeof import('re2js');
    const parts = separate(pattern);
    const size = parts.reduce((sum, one) => sum + one.size, 0);
    this.size = partOf('', size).size;
    this.#source = source;
    // In a group: RE2JS would spend a time cubic in the size on a form of the program that it has only without one.
    this.#parts = parts.map(({ text, isAbsent }) => ({ program: RE2JS.compile(`(${text})`), isAbsent }));
  }

  test(text: string): boolean {
    // RE2JS's own `test` remembers states, and hostile texts cause ever new ones.
    return this.#parts.every(({ program, isAbsent }) => program.matcher(text).find() !== isAbsent);
  }

  /** Differs from that of any other pattern, and of any regular expression. */
  toString(): string {
    return `RE2 ${this.#source}`;
  }
}

const patterns = new Map<string, RegExp | LinearPattern>();

/**
 * Prepares a pattern of ECMAScript with the flag u (ECMA-262 section 22.2.1), or one that needs none because it escapes
 * characters that mean nothing else, such as `\!`.
 * @returns A regular expression if Node.js itself takes no longer than linear time.
 * @throws PatternError if it is not a pattern, or RE2 cannot match it.
 */
export function patternOf(source: string): RegExp | LinearPattern {
  let pattern = patterns.get(source);
  if (pattern === undefined)
    patterns.set(source, (pattern = prepare(source.replaceAll(escapes, withNumbers))));
  return pattern;
}

const escapes = /\\([^])/g;

/** Writes escaped punctuation, which the flag u does not allow, by its number, which it allows everywhere. */
function withNumbers(escape: string, of: string): string {
  return /[\x20-\x7e]/.test(of) && !/[\da-zA-Z^$\\.*+?()[\]{}|/]/.test(of)
    ? `\\x${of.charCodeAt(0).toString(16)}`
    : escape;
}

function prepare(source: string): RegExp | LinearPattern {
  const { RegExpParser } = load('@eslint-community/regexpp') as typeof import('@eslint-community/regexpp');
  try {
    const pattern = new RegExpParser().parsePattern(source, 0, source.length, { unicode: true });
    return source.length <= maxPlain && isPlain(pattern)
      ? new RegExp(source, 'u')
      : new LinearPattern(source, pattern);
  } catch (error) {
    if (error instanceof PatternError) throw error;
    const { message } = error as Error;
    if (error instanceof SyntaxError)
      throw new PatternError(
        // Without the pattern, which may be long.
        message.slice(message.lastIndexOf(': ') + 2),
        'Write a regular expression of ECMAScript, with the flag u',
      );
    // The stack is exhausted, or RE2 refuses the depth.
    throw new PatternError(`it is nested too deeply: ${message}`, 'Write fewer groups inside each other');
  }
}

/**
 * Whether backtracking takes linear time: the pattern is a sequence of characters, where one thing at most can vary, the
 * place where it starts or one count, and few characters follow what varies. Each way to vary is tried once.
 */
function isPlain({ alternatives: [only, ...others] }: AST.Pattern): boolean {
  const elements = [...only!.elements];
  const isAnchored = isEdge(elements[0], 'start');
  if (isAnchored) elements.shift();
  if (isEdge(elements.at(-1), 'end')) elements.pop();
  let [varying, after] = [isAnchored ? 0 : 1, 0];
  for (const one of elements) {
    const { element, min, max } = one.type === 'Quantifier' ? one : { element: one, min: 1, max: 1 };
    if (!['Character', 'CharacterClass', 'CharacterSet'].includes(element.type)) return false;
    if (min !== max) varying++;
    else if (varying > 0) after += min;
  }
  return others.length === 0 && varying <= 1 && after <= maxAgain;
}

function isEdge(element: AST.Element | undefined, kind: 'start' | 'end'): boolean {
  return element?.type === 'Assertion' && element.kind === kind;
}

/** A part of a pattern in the syntax of RE2. */
interface Part {
  readonly text: string;
  readonly size: number;
  /** The greatest product of nested repetition counts. */
  readonly count: number;
}

function partOf(text: string, size: number, count = 1): Part {
  if (size > maxSize)
    throw new PatternError(
      `written without counts, it has more than ${maxSize} parts`,
      'Write smaller counts, or fewer inside each other',
    );
  if (text.length > maxText)
    throw new PatternError(
      `with all ranges of classes such as \\p{L}, it has more than ${maxText} characters`,
      'Write fewer classes, such as one with a count instead of several',
    );
  return { text, size: Math.max(size, 1), count };
}

/** Takes lookaheads at the very beginning for patterns of their own, which must match, or must not. */
function separate({ alternatives }: AST.Pattern): (Part & { readonly isAbsent: boolean })[] {
  const [start, ...elements] = alternatives.length === 1 ? alternatives[0]!.elements : [];
  if (!isEdge(start, 'start')) return [{ ...choice(alternatives), isAbsent: false }];
  const anchored = (part: Part, isAbsent: boolean) => ({ ...part, text: `\\A${part.text}`, isAbsent });
  const found: ReturnType<typeof anchored>[] = [];
  for (let [next] = elements; next?.type === 'Assertion' && next.kind === 'lookahead'; [next] = elements) {
    found.push(anchored(choice(next.alternatives), next.negate));
    elements.shift();
  }
  return [...found, anchored(sequence(elements), false)];
}

/** How elements of each type are written for RE2. The types that are not here are those of the flag v. */
const writers: {
  readonly [Type in AST.Element['type']]?: (node: Extract<AST.Element, { type: Type }>) => Part;
} = {
  Assertion: (node) => {
    if (node.kind === 'start') return partOf('\\A', 1);
    if (node.kind === 'end') return partOf('\\z', 1);
    if (node.kind === 'word') return partOf(node.negate ? '\\B' : '\\b', 1);
    throw new PatternError(
      `it looks around, ${node.raw}, in another place than directly after ^ at the beginning of the whole pattern`,
      'Move a lookahead there, or write allOf with one pattern each, with not if it must not match',
    );
  },
  Backreference: ({ raw }) => {
    throw new PatternError(
      `it repeats what a group has matched, ${raw}`,
      `Write an alternative for each text, as in ^(?:"[a-z]*"|'[a-z]*')$`,
    );
  },
  CapturingGroup: ({ alternatives }) => choice(alternatives),
  Character: (node) => classOf(rangesOf(node)),
  CharacterClass: (node) => {
    const ranges = (node as AST.ClassRangesCharacterClass).elements.flatMap(rangesOf);
    return classOf(node.negate ? allBut(ranges) : ranges);
  },
  CharacterSet: (node) => classOf(rangesOf(node)),
  Group: ({ alternatives, modifiers }) => {
    if (modifiers === null) return choice(alternatives);
    throw new PatternError('it has flags inside', 'Write the characters that they allow, as in [Aa]');
  },
  Quantifier: ({ element, min, max }) => {
    const { text, size, count } = write(element);
    const each = Math.floor(maxCount / count);
    if (max === Infinity) {
      const { size: all } = partOf('', size * Math.max(min, 1) + 1);
      const rest = `(?:${text})${min > 0 ? '+' : '*'}`;
      return partOf(exactly(text, min - 1, each) + rest, all, count * Math.min(Math.max(min, 1), each));
    }
    const optional = max - min;
    const { size: all } = partOf('', size * (min + optional * (optional > each ? 2 : 1)) + optional);
    const written = exactly(text, min, each) + upTo(text, optional, each);
    return partOf(written, all, count * Math.min(Math.max(max, 1), each));
  },
};

function write(element: AST.Element): Part {
  const writer = writers[element.type] as ((node: AST.Element) => Part) | undefined;
  if (writer !== undefined) return writer(element);
  throw new PatternError(`${element.raw} is not supported`, 'Write it in another way');
}

/** Writes nodes after each other, and stops at the first one that is too much. */
function joined<Node>(nodes: readonly Node[], separator: '' | '|', partOfNode: (node: Node) => Part): Part {
  let all: Part | undefined;
  for (const node of nodes) {
    const one = partOfNode(node);
    all =
      all === undefined
        ? one
        : partOf(
            all.text + separator + one.text,
            all.size + separator.length + one.size,
            Math.max(all.count, one.count),
          );
  }
  return all ?? partOf('', 1);
}

function sequence(elements: readonly AST.Element[]): Part {
  return joined(elements, '', write);
}

function choice(alternatives: readonly AST.Alternative[]): Part {
  const written = joined(alternatives, '|', ({ elements }) => sequence(elements));
  return { ...written, text: `(?:${written.text})` };
}

/** Repeats a text, in pieces of at most `each` repetitions. */
function exactly(text: string, count: number, each: number): string {
  const repeated = (times: number) => (times > 0 ? `(?:${text}){${times}}` : '');
  return repeated(each).repeat(Math.max(0, Math.floor(count / each))) + repeated(count % each);
}

/** Allows up to `count` repetitions, in pieces that are completed one after the other. */
function upTo(text: string, count: number, each: number): string {
  if (count <= each) return count === 0 ? '' : `(?:${text}){0,${count}}`;
  return `(?:(?:${text}){0,${each - 1}}|(?:${text}){${each}}${upTo(text, count - each, each)})`;
}

/** Code points, each from a first to a last one. */
type Ranges = readonly (readonly [number, number])[];

/** The sets of characters that ECMAScript defines itself. */
// prettier-ignore
const sets: Readonly<Record<'any' | 'digit' | 'space' | 'word', Ranges>> = {
  any: [[0, 0x9], [0xb, 0xc], [0xe, 0x2027], [0x202a, maxCode]],
  digit: [[0x30, 0x39]],
  space: [
    [0x9, 0xd], [0x20, 0x20], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a], [0x2028, 0x2029], [0x202f, 0x202f],
    [0x205f, 0x205f], [0x3000, 0x3000], [0xfeff, 0xfeff],
  ],
  word: [[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]],
};

function rangesOf(node: AST.ClassRangesCharacterClassElement | AST.CharacterSet): Ranges {
  if (node.type === 'Character') return [[node.value, node.value]];
  if (node.type === 'CharacterClassRange') return [[node.min.value, node.max.value]];
  if (node.kind === 'property') return rangesOfProperty(node.raw);
  return node.kind === 'any' || !node.negate ? sets[node.kind] : allBut(sets[node.kind]);
}

const properties = new Map<string, Ranges>();

/** @param property - An escape, such as `\p{Script=Greek}`: Node.js knows the characters of its version of Unicode. */
function rangesOfProperty(property: string): Ranges {
  const known = properties.get(property);
  if (known !== undefined) return known;
  const one = new RegExp(property, 'u');
  const ranges: [number, number][] = [];
  properties.set(property, ranges);
  for (let code = 0; code <= maxCode; code++) {
    if (!one.test(String.fromCodePoint(code))) continue;
    const last = ranges.at(-1);
    if (last?.[1] === code - 1) last[1] = code;
    else ranges.push([code, code]);
  }
  return ranges;
}

function allBut(ranges: Ranges): Ranges {
  const others: [number, number][] = [];
  let next = 0;
  for (const [first, last] of ranges.toSorted(([a], [b]) => a - b)) {
    if (first > next) others.push([next, first - 1]);
    next = Math.max(next, last + 1);
  }
  return next > maxCode ? others : [...others, [next, maxCode]];
}

function classOf(ranges: Ranges): Part {
  const [isNone, written] = ranges.length === 0 ? ['^', [[0, maxCode]]] : ['', ranges];
  const texts = written.map((range) => range.map((code) => `\\x{${code.toString(16)}}`).join('-'));
  return partOf(`[${isNone}${texts.join('')}]`, 1);
}
