// Matches texts with the patterns of a contract in a time that is linear in the length of the text: by RE2, since Node.js
// matches by backtracking, which can take hours for a short text.
import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';

/** The maximum size of a pattern for RE2: the number of steps that it compares each character with. */
const maxSize = 10_000;
/** The greatest length of a pattern for Node.js, which finds only when it matches that it cannot compile a pattern. */
const maxPlain = 1_000;

/** Loads RE2 only for a contract that needs it. */
const load = createRequire(import.meta.url);

/** The reason why a pattern cannot be matched. */
export class PatternError extends Error {
  /** The remedy. */
  readonly fix: string;

  constructor(message: string, fix: string) {
    super(message);
    this.fix = fix;
  }
}

/** Matches texts: a regular expression of Node.js if that takes no longer than linear time. */
export interface Matcher {
  readonly test: (text: string) => boolean;
  /** Differs from that of any other pattern. */
  readonly toString: () => string;
}

const matchers = new Map<string, Matcher>();

/**
 * Prepares a pattern of ECMAScript with the flag u (ECMA-262 section 22.2.1), or one that needs none because it escapes
 * characters that mean nothing else, such as `\!`.
 * @throws PatternError if it is not a pattern, or RE2 cannot match it.
 */
export function patternOf(source: string): Matcher {
  const matcher = matchers.get(source) ?? prepare(source.replaceAll(/\\([^])/g, withNumber));
  matchers.set(source, matcher);
  return matcher;
}

/** Writes escaped punctuation, which the flag u does not allow, by its number, which it allows everywhere. */
function withNumber(escape: string, character: string): string {
  return /[\x20-\x7e]/.test(character) && !/[\da-zA-Z^$\\.*+?()[\]{}|/]/.test(character)
    ? `\\x${character.charCodeAt(0).toString(16)}`
    : escape;
}

function prepare(source: string): Matcher {
  let native: RegExp;
  try {
    native = new RegExp(source, 'u');
  } catch (error) {
    // Without the pattern, which may be long.
    const message = (error as Error).message.replace(/^.*: /s, '');
    throw new PatternError(message, 'Write a regular expression of ECMAScript, with the flag u');
  }
  if (source.length <= maxPlain && plain.test(source)) return native;
  const program = compile((source.match(token) ?? []).map(writePart).join(''));
  // RE2JS's own `test` remembers states, and hostile texts cause ever new ones.
  return { test: (text) => program.matcher(text).find(), toString: () => `RE2 ${source}` };
}

// cspell:ignore bcpkux
/** The source of one character in a pattern: a class, an escape, or the character itself. */
const character = String.raw`(?:\[(?:\\[^]|[^\]\\])*\]|\\(?:p\{[^}]*\}|u\{[^}]*\}|ud[89ab]..\\ud[c-f]..|u(?!d[89ab]..\\ud[c-f]..|\{)....|x..|c.|[^bcpkux1-9])|[^\\^$()|*+?{}[\]])`;
const single = new RegExp(`^${character}$`, 'iu');
const repetition = String.raw`(?:[*+?]|\{\d+(?:,\d*)?\})\??`;
/** The parts of a pattern: the beginning of a group, a character, another escape, or a repetition. */
const token = new RegExp(
  String.raw`\((?:\?(?:<?[=!]|<\w+>|[\w-]*:))?|${character}|\\k<[^>]*>|\\\d+|\\b|${repetition}|[^]`,
  'giu',
);
/**
 * A pattern for which backtracking takes linear time: one thing at most can vary, the place where it starts or the last count,
 * and few characters follow. Each way to vary is tried once.
 */
const plain = new RegExp(
  String.raw`^(?:\^(?:${character}(?:\{\d+\})?)*(?:${character}${repetition})?)?${character}{0,16}\$?$`,
  'iu',
);

/** Writes a part of a pattern for RE2. */
function writePart(part: string): string {
  if (/^\(\?<?[=!]/.test(part))
    throw new PatternError(
      `it looks around, ${part}…)`,
      'Write allOf with one pattern each, with not if it must not match',
    );
  if (/^\(\?[\w-]+:/.test(part))
    throw new PatternError('it has flags inside', 'Write the characters that they allow, as in [Aa]');
  if (/^\\[k1-9]/.test(part))
    throw new PatternError(
      `it repeats what a group has matched, ${part}`,
      `Write an alternative for each text, as in ^(?:"[a-z]*"|'[a-z]*')$`,
    );
  if (part.startsWith('(')) return '(?:';
  return single.test(part) ? classOf(part) : ({ '^': '\\A', $: '\\z' }[part] ?? part);
}

const classes = new Map<string, string>();
let characters: string | undefined;

/** Writes a class of characters with all its ranges: Node.js knows what it means. */
function classOf(part: string): string {
  // All but surrogates, which are in no valid text.
  characters ??= Array.from({ length: 0x10f800 }, (_, i) =>
    String.fromCodePoint(i < 0xd800 ? i : i + 0x800),
  ).join('');
  let written = classes.get(part);
  if (written === undefined) {
    const ranges = [...characters.matchAll(new RegExp(`${part}+`, 'gu'))].map(([run]) =>
      [run, Array.from(run.slice(-2)).at(-1)!]
        .map((text) => `\\x{${text.codePointAt(0)!.toString(16)}}`)
        .join('-'),
    );
    written = ranges.length === 0 ? '[^\\x{0}-\\x{10ffff}]' : `[${ranges.join('')}]`;
    classes.set(part, written);
  }
  return written;
}

/** @throws PatternError if RE2 refuses the pattern, or compares each character of a text with too much of it. */
function compile(text: string): RE2JS {
  const { RE2JS } = load('re2js') as typeof import('re2js');
  const fix = 'Write smaller counts, and fewer inside each other';
  try {
    // In a group: RE2JS would spend a time cubic in the size on a form of the program that it has only without one.
    const program = RE2JS.compile(`(${text})`);
    if (program.programSize() <= maxSize) return program;
  } catch (error) {
    throw new PatternError(`RE2 refuses it: ${(error as Error).message.slice(0, 100)}`, fix);
  }
  throw new PatternError(`written without counts, it has more than ${maxSize} parts`, fix);
}
