// Patterns: each is matched in linear time or refused, and matches what ECMAScript says.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { contractOfBodies } from '../support/contract-check.js';
import { engines } from '../support/engines.js';
import { startService } from '../support/service.js';

/** Starts a service that takes objects with some properties; returns whether it accepts one. */
async function startWith(t: Test, schemas: readonly object[]) {
  const properties = Object.fromEntries(schemas.map((schema, i) => [`p${i}`, schema]));
  const contract = contractOfBodies([{ type: 'object', properties }]);
  const handlers = { send0: () => Promise.resolve() };
  const { app } = await startService(t, engines[0]!, { contract, handlers });
  return async (i: number, value: unknown) => {
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/0',
      headers: { host: 'x', 'content-type': 'application/json' },
      payload: JSON.stringify({ [`p${i}`]: value }),
    });
    return statusCode === 204;
  };
}

/** Whether a request takes at most three times as long for each character of a long text as of a short one. */
async function isLinear(send: (length: number) => Promise<unknown>): Promise<boolean> {
  const [few, many] = [1_000, 100_000];
  const timeOf = async (length: number) => {
    const before = process.cpuUsage();
    let [runs, time] = [0, 0];
    while (time < 10_000) {
      await send(length);
      runs++;
      const { user, system } = process.cpuUsage(before);
      time = user + system;
    }
    return time / runs / length;
  };
  for (let i = 0; i < 3; i++) if ((await timeOf(many)) / (await timeOf(few)) <= 3) return true;
  return false;
}

/**
 * Patterns that backtracking takes very long for, by what is repeated in the text, and its end: nested and overlapping
 * repetitions, alternatives, optional parts, iterations of nothing, anchors and boundaries inside.
 */
const hostile: readonly (readonly [unit: string, end: string, patterns: string])[] = [
  ['🇦', '!', String.raw`^(?:[\ud83c\udde6-\ud83c\uddff]+\x20?)*$`],
  ['1', '!', String.raw`^(?:\d?){1000}$ ^\d+(?:\.\d+)?\d+$ ^(?:\d|\d\d)+$`],
  ['a', '', `^a$${String.raw`(?:|\b)`.repeat(28)}x`],
  [
    'a',
    '!',
    String.raw`(a+)+$ ^(a+)*b?c ^((a*)*)*x$ ^(\w+\s?)*$ ([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*@ ^(a|aa)+$`,
  ],
  ['a', '!', String.raw`^\w+([.-]?\w+)*@\w+([.-]?\w+)*(\.\w{2,3})+$ ^(?:[a-z]{1,9}){1,}[0-9]$ a*a*$ [a-z]+@`],
  ['a', '!', String.raw`^(.*)(.*)(.*)x$ ^(a|a)*$ ^(a|aa)+$ ^(\p{L}|\w)+$ ^(a?){30}a{30}$ ^(?:a{0,20}){20}$`],
  ['a', '!', String.raw`^(?:|a)*$ ^(?:(?:)*|a*)*$ ^(?:^a|$|\b|a)*!x$ ^${'(?:|a?)'.repeat(20)}b$`],
  ['a ', '!', String.raw`^(?:\b\w*\b\x20?)*$ ^(?:\w*\W*)*x$`],
  ['a,', '!', String.raw`(?:^|,)(?:[^,]*)*,x$ ^(?:[^,]*,?)*x$`],
  ['ab', '!', String.raw`^(?:ab|a|b)*c ^(?:(?:x?a?b?){9}){9}z`],
  ['@', '\n', '^.+@.+$'],
  [' ', 'a', String.raw`^\t+|\s+$`],
  ['é', '!', '^(é|[à-ö])+$'],
  ['{a}', '', String.raw`(\{a\}[\s\S]*?\{b\}|\{b\}[\s\S]*?\{a\})`],
];

t.test('a pattern takes linear time for texts that backtracking never finishes', async (t) => {
  const all = hostile.flatMap(([unit, end, patterns]) =>
    patterns.split(' ').map((pattern) => ({ unit, end, pattern })),
  );
  const accepts = await startWith(
    t,
    all.map(({ pattern }) => ({ type: 'string', pattern })),
  );
  for (const [i, { unit, end, pattern }] of all.entries()) {
    const textOf = (length: number) => unit.repeat(length / unit.length) + end;
    t.ok(await isLinear((length) => accepts(i, textOf(length))), pattern);
  }
  const slow = '^(a+)+$';
  const names = [
    { patternProperties: { [slow]: {} } },
    { propertyNames: { pattern: slow } },
    { not: { pattern: slow } },
  ];
  const ofNames = await startWith(t, names);
  const text = `${'a'.repeat(100)}!`;
  t.strictSame(
    [await ofNames(0, { [text]: 1 }), await ofNames(1, { [text]: 1 }), await ofNames(2, text)],
    [true, false, true],
    'wherever a pattern is',
  );
});

/** The smallest elements of patterns: of each kind, and where Unicode and ECMAScript have their traps. */
const elements =
  String.raw`a b - _ \/ \. \x41 \cJ \n \0 . \b \B ^ $ (?:) \d \D \w \W \s \S [^] [] [ab] [^a] [a-c\d]
 [^\s\S] [\W_] [\b] [-a] [\]\\] 😀 \ud83d\ude00 \u{1f600} [😀-😂] \p{L} \P{L}
 \p{Script=Greek} [^\p{Lu}\d] [\u2028-\uffff]`.split(/\s+/);
const counts = fc.constantFrom(...'* + ? *? +? ?? {2} {0,2} {1,} {2,3}? {0}'.split(' '));
const { random } = fc.letrec<{ random: string }>((tie) => ({
  random: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(...elements),
    fc.tuple(tie('random'), tie('random')).map((parts) => parts.join('')),
    fc.tuple(tie('random'), tie('random')).map((parts) => `(${parts.join('|')})`),
    fc.tuple(tie('random'), counts).map(([part, count]) => `(?:${part})${count}`),
    tie('random').map((part) => `(?<x>${part})`),
    tie('random').map((part) => `${part}|`),
  ),
}));
const characters = 'a b c A 1 _ - / . ] \\ 😀 é α Σ ſ K \n \r \0 \b \u0085 \u00a0 \u180e \u2028 \ufeff'.split(
  ' ',
);
const text = fc.array(fc.constantFrom(' ', ...characters), { maxLength: 6 }).map((parts) => parts.join(''));

t.test('a pattern matches what ECMAScript says', async (t) => {
  const start = fc.constantFrom('', '^');
  const pattern = fc
    .tuple(start, random, fc.constantFrom('', '$'))
    .map(([a, part, z]) => (a ? `${a}(?:${part})${z}` : part + z))
    // Only newer versions of Node.js take a name twice, in different alternatives.
    .filter((source) => source.split('(?<x>').length <= 2);
  const runs = Number(process.env['PATTERN_RUNS'] ?? 300);
  const sources = fc.sample(pattern, runs);
  const accepts = await startWith(
    t,
    sources.map((source) => ({ type: 'string', pattern: source })),
  );
  const tried = { true: 0, false: 0 };
  for (const [i, source] of sources.entries()) {
    const native = new RegExp(source, 'uy');
    for (const value of fc.sample(text, 8)) {
      // At each character, since Node.js by itself also finds `a|\B` inside a surrogate pair.
      const isMatch = [...Array.from(value), ''].some((_, at, chars) => {
        native.lastIndex = chars.slice(0, at).join('').length;
        return native.test(value);
      });
      tried[`${isMatch}`]++;
      if ((await accepts(i, value)) !== isMatch) t.fail(`${source} with ${JSON.stringify(value)}`);
    }
  }
  t.ok(tried.true > 100 && tried.false > 100, JSON.stringify(tried));
});

t.test('punctuation may be escaped, and counts hold exactly', async (t) => {
  const cases: [pattern: string, right: string, wrong: string][] = [
    ['^\\!\\-$', '!-', '\\!-'],
    ['^[a\\-\\!c]+$', 'a-!c', 'b'],
    ['^[\\!-\\/]$', '+', '0'],
    ['^\\\\!$', '\\!', '!'],
    ['^a{2,3000}$', 'a'.repeat(3_000), 'a'.repeat(3_001)],
    ['^(?:a{20}){50}$', 'a'.repeat(1_000), 'a'.repeat(999)],
    ['^(?:ab){999}$', 'ab'.repeat(999), 'ab'.repeat(1_000)],
    ['^(?:a{7}){100,}$', 'a'.repeat(707), 'a'.repeat(693)],
  ];
  const accepts = await startWith(
    t,
    cases.map(([pattern]) => ({ type: 'string', pattern })),
  );
  for (const [i, [pattern, right, wrong]] of cases.entries())
    t.strictSame([await accepts(i, right), await accepts(i, wrong)], [true, false], pattern);
});

t.test('a pattern that cannot be matched in linear time stops the start, with what to write instead', (t) => {
  const move = 'Write allOf with one pattern each, with not if it must not match';
  const around = (what: string) => `it looks around, ${what}…)`;
  const alternatives = `Write an alternative for each text, as in ^(?:"[a-z]*"|'[a-z]*')$`;
  const smaller = 'Write smaller counts, and fewer inside each other';
  const syntax = 'Write a regular expression of ECMAScript, with the flag u';
  const refused: [pattern: string, message: string, fix: string][] = [
    ['(?=a)b', around('(?='), move],
    ['^[a-z-]{1,63}(?<!-)$', around('(?<!'), move],
    ['^(a+)\\1$', 'it repeats what a group has matched, \\1', alternatives],
    ['^(?<x>a+)\\k<x>$', 'it repeats what a group has matched, \\k<x>', alternatives],
    ['^(?:ab){1001}$', 'RE2 refuses it: error parsing regexp: invalid repeat count: `{1001}`', smaller],
    ['^(?:a-b-c-d-e-f-){1000}$', 'written without counts, it has more than 10000 parts', smaller],
    ['a{2,1}', 'numbers out of order in {} quantifier', syntax],
    ['\\q', 'Invalid escape', syntax],
  ];
  const faultsOf = (pattern: string): unknown => {
    try {
      contractOfBodies([{ type: 'string', pattern }]);
      return [];
    } catch (error) {
      return (error as { faults?: unknown }).faults;
    }
  };
  for (const [pattern, message, fix] of refused)
    t.match(faultsOf(pattern), [{ message: `${pattern} is not supported: ${message}`, fix }], pattern);
  t.end();
});
