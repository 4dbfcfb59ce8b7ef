// Patterns and formats: each is matched in linear time or refused, and matches what ECMAScript says.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { loadContract } from '../../dist/contract/contract.js';
import { patternOf, type LinearPattern } from '../../dist/contract/schema/pattern.js';
import { Compiler } from '../../dist/http/request/validation/validation.js';
import { engines } from '../support/engines.js';
import { error, loadEdited, orchard, orchardDocument } from '../support/garden/garden.js';
import { startService } from '../support/service.js';

/** Returns what validates the parameter of a contract. */
function validatorOf(schema: object) {
  const document = {
    openapi: '3.1.0',
    info: { title: 'Patterns', version: '1' },
    security: [],
    paths: {
      '/': {
        get: {
          operationId: 'get',
          parameters: [{ name: 'q', in: 'query', schema }],
          responses: { 200: { description: 'OK' } },
        },
      },
    },
  };
  const { operations } = loadContract(Buffer.from(JSON.stringify(document)));
  const compiled = new Compiler(document).compile(operations[0]!.parameters[0]!.schema, { source: 'text' });
  return (value: unknown) => {
    const { faults } = compiled.read(value);
    return faults.length === 0 ? undefined : faults;
  };
}

/** The CPU time that a run takes for each of so many characters, in microseconds, of as many runs as can be measured. */
function timeOf(run: (length: number) => void, length: number): number {
  const before = process.cpuUsage();
  let [runs, time] = [0, 0];
  while (time < 3_000) {
    run(length);
    runs++;
    const { user, system } = process.cpuUsage(before);
    time = user + system;
  }
  return time / runs / length;
}

/** By what factor a character of a long text takes longer than one of a short text. */
function growthOf(
  run: (length: number) => void,
  [few, many]: readonly [number, number] = [1_000, 100_000],
): number {
  const times = Array.from({ length: 5 }, () => [timeOf(run, few), timeOf(run, many)] as const);
  const [short, long] = [0, 1].map((i) => times.map((pair) => pair[i]!).sort((a, b) => a - b)[2]!);
  return long! / short!;
}

/** Whether the factor is within a limit. It is tried three times, since V8 compiles and collects garbage meanwhile. */
function isLinear(
  run: (length: number) => void,
  limit: number,
  lengths?: readonly [number, number],
): boolean {
  return [1, 2, 3].some(() => growthOf(run, lengths) <= limit);
}

/** A text of each length: a beginning, then what is repeated, then an end. */
function textsOf(start: string, unit: string, end: string): Record<number, string> {
  const textOf = (length: number) => `${start}${unit.repeat(Math.ceil(length / unit.length))}${end}`;
  return { 1_000: textOf(1_000), 100_000: textOf(100_000) };
}

/**
 * Patterns that backtracking takes very long for, by what is repeated in the text, and its end: nested and overlapping
 * repetitions, alternatives, optional parts, iterations of nothing, anchors and boundaries inside.
 */
const hostile: readonly (readonly [unit: string, end: string, patterns: string])[] = [
  ['🇦', '!', String.raw`^(?:[\ud83c\udde6-\ud83c\uddff]+\x20?)*$`],
  ['🐀', '!', String.raw`^(?:\ud83d\udc00+)+$`],
  ['1', '!', String.raw`^(?:\d?){1001}$ ^\d+(?:\.\d+)?\d+$ ^(?:\d|\d\d)+$`],
  ['a', '', `^a$${String.raw`(?:|\b)`.repeat(28)}x`],
  [
    'a',
    '!',
    String.raw`(a+)+$ ^(a+)*b?c ^((a*)*)*x$ ^(\w+\s?)*$ ([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*@`,
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
  const [plain, plainTexts] = [patternOf('^[a-z]*$'), textsOf('', 'a', '')];
  const growth = growthOf((length) => plain.test(plainTexts[length]!));
  for (const [unit, end, patterns] of hostile) {
    const texts = textsOf('', unit, end);
    for (const pattern of patterns.split(' '))
      t.ok(
        isLinear((length) => patternOf(pattern).test(texts[length]!), 3 * Math.max(1, growth)),
        pattern,
      );
  }
});

t.test('the start takes a time that is linear in the number of parts of a pattern', async (t) => {
  let different = 0;
  const prepare = (parts: number) => {
    const classOf = (_: unknown, i: number) =>
      `[\\u${(0x4000 + 8 * i).toString(16)}\\u${(0x4004 + 8 * i).toString(16)}]?`;
    patternOf(`^${Array.from({ length: parts }, classOf).join('')}${different++}$`);
  };
  t.ok(isLinear(prepare, 3, [48, 480]));
});

t.test('each format takes linear time', async (t) => {
  const starts = '  a@ a: http:// http://a@ http://[ 1: 12:00:00. 2024-01-01T12:00:00.'.split(' ');
  const units = 'a 0 a. a- 1: %41 @ ='.split(' ');
  const texts = starts.flatMap((start) => units.map((unit) => textsOf(start, unit, '!')));
  for (const format of 'date-time date time uuid email uri hostname ipv4 ipv6 byte password'.split(' ')) {
    const validate = validatorOf({ type: 'string', format });
    const run = (length: number) => texts.map((one) => validate(one[length]!));
    t.ok(isLinear(run, 3), format);
  }
});

t.test('only what plainly takes linear time is matched by backtracking', async (t) => {
  const plain = String.raw`^[^\x00]*$ ^[a-z]{1,50}$ ^\d{4}-\d{2}-\d{2}$ ^"[!#-\[\]-~]{1,255}"$ ^2 [] [A-Z]{3} ^\p{L}+?`;
  for (const pattern of `${plain} ^.{2,3000} a$ ^[ab]*a{16}$ a{16} `.split(' '))
    t.ok(patternOf(pattern) instanceof RegExp, pattern);
  const long = 'a'.repeat(1_000);
  for (const pattern of String.raw`^a*b?$ a+ ^a*b{17} a{17} a|b ^(?:a)*$ (a) ^a\b ^^a ^a$b a^ ^${long}`.split(
    ' ',
  ))
    t.notOk(patternOf(pattern) instanceof RegExp, pattern.slice(0, 99));
});

/** The smallest elements of patterns: of each kind, and where Unicode and ECMAScript have their traps. */
const elements =
  String.raw`a b - _ \/ \. \x41 \cJ \n \0 . \b \B ^ $ (?:) \d \D \w \W \s \S [^] [] [ab] [^a] [a-c\d]
 [^\s\S] [\W_] [\b] [-a] [\]\\] 😀 \ud83d\ude00 \u{1f600} \ud83d \ude00 [^\ud83d] [\ud800-\udfff] [😀-😂] \p{L} \P{L}
 \p{Script=Greek} [^\p{Lu}\d] [\u2028-\uffff]`.split(/\s+/);
const counts = fc.constantFrom(...'* + ? *? +? ?? {2} {0,2} {1,} {2,3}? {0}'.split(' '));
const { random } = fc.letrec<{ random: string }>((tie) => ({
  random: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(...elements),
    fc.tuple(tie('random'), tie('random')).map((parts) => parts.join('')),
    fc.tuple(tie('random'), tie('random')).map((parts) => `(${parts.join('|')})`),
    fc.tuple(tie('random'), counts).map(([one, count]) => `(?:${one})${count}`),
    tie('random').map((one) => `(?<x>${one})`),
    tie('random').map((one) => `${one}|`),
  ),
}));
const characters =
  'a b c A 1 _ - / . ] \\ 😀 é α Σ ſ K \ud83d \ude00 \n \r \0 \b \u0085 \u00a0 \u180e \u2028 \ufeff'.split(
    ' ',
  );
const text = fc.array(fc.constantFrom(' ', ...characters), { maxLength: 6 }).map((parts) => parts.join(''));

t.test('a pattern matches what ECMAScript says, also unpaired surrogates', async (t) => {
  const start = fc.constantFrom('', '^', '^(?=.*a)', '^(?!.*b)(?=[^])(?!$)');
  const tried = { true: 0, false: 0 };
  const property = fc.property(
    fc
      .tuple(start, random, fc.constantFrom('', '$'))
      .map(([a, one, z]) => (a ? `${a}(?:${one})${z}` : one + z)),
    fc.array(text, { minLength: 8, maxLength: 8 }),
    (source, texts) => {
      // Only newer versions of Node.js take a name twice, in different alternatives.
      fc.pre(source.split('(?<x>').length <= 2);
      const [pattern, native] = [patternOf(source), new RegExp(source, 'uy')];
      for (const value of texts) {
        // At each character, since Node.js by itself also finds `a|\B` inside a surrogate pair.
        const isMatch = [...Array.from(value), ''].some((_, i, chars) => {
          native.lastIndex = chars.slice(0, i).join('').length;
          return native.test(value);
        });
        tried[`${isMatch}`]++;
        if (pattern.test(value) !== isMatch) throw new Error(`${source} with ${JSON.stringify(value)}`);
      }
    },
  );
  fc.assert(property, { numRuns: Number(process.env['PATTERN_RUNS'] ?? 300) });
  t.ok(tried.true > 100 && tried.false > 100, JSON.stringify(tried));
});

t.test('punctuation may be escaped where that changes nothing, also in a class', (t) => {
  for (const [source, fits, other] of [
    ['^\\!\\-$', '!-', '\\!-'],
    ['^[a\\-\\!c]+$', 'a-!c', 'b'],
    ['^[\\!-\\/]$', '+', '0'],
    ['^\\\\!$', '\\!', '!'],
  ] as const)
    t.strictSame(
      [fits, other].map((value) => patternOf(source).test(value)),
      [true, false],
      source,
    );
  t.throws(() => patternOf('\\q'), /Invalid escape/);
  t.end();
});

t.test('counts beyond those that RE2 takes hold exactly, also inside each other', async (t) => {
  const patterns =
    'a{2,3000} a{1002} a{1002,} a{0,1001} (?:a{2}){501} (?:a{2}){0,501} a{0} (?:a{600}){2} (?:a{0,600}){2} (?:a{7}){200,}';
  const texts = [
    0, 1, 2, 3, 999, 1_000, 1_001, 1_002, 1_003, 1_199, 1_200, 1_201, 1_400, 2_999, 3_000, 3_001,
  ];
  for (const pattern of patterns.split(' ')) {
    // Not one that Node.js itself matches.
    const source = `^(?:${pattern})$`;
    const matched = (one: { test: (text: string) => boolean }) =>
      texts.filter((length) => one.test('a'.repeat(length)));
    t.strictSame(matched(patternOf(source)), matched(new RegExp(source, 'u')), pattern);
  }
});

t.test(
  'a pattern that cannot be matched in linear time stops the start, with what to write instead',
  async (t) => {
    const move =
      'Move a lookahead there, or write allOf with one pattern each, with not if it must not match';
    const around = (what: string) =>
      `it looks around, ${what}, in another place than directly after ^ at the beginning of the whole pattern`;
    const alternatives = `Write an alternative for each text, as in ^(?:"[a-z]*"|'[a-z]*')$`;
    const parts = 'written without counts, it has more than 10000 parts';
    const smaller = 'Write smaller counts, or fewer inside each other';
    const ranges = 'with all ranges of classes such as \\p{L}, it has more than 1000000 characters';
    const fewer = 'Write fewer classes, such as one with a count instead of several';
    const syntax = 'Write a regular expression of ECMAScript, with the flag u';
    const nested = 'Write fewer groups inside each other';
    const refused: [pattern: string, message: string, fix: string][] = [
      ['(?=a)b', around('(?=a)'), move],
      ['^a(?!b)', around('(?!b)'), move],
      ['^a|^(?=b)', around('(?=b)'), move],
      ['^(?=a(?!b))', around('(?!b)'), move],
      ['^(?:(?=a)|(?=\\w)|x){1001}y', around('(?=a)'), move],
      ['^[a-z-]{1,63}(?<!-)$', around('(?<!-)'), move],
      ['^(a+)\\1$', 'it repeats what a group has matched, \\1', alternatives],
      ['^(?<x>a+)\\k<x>$', 'it repeats what a group has matched, \\k<x>', alternatives],
      ['^(?i:a)$', 'it has flags inside', 'Write the characters that they allow, as in [Aa]'],
      ['^(?:ab){5001}$', parts, smaller],
      ['^(?:(?:a{99}){99}b?){2}', parts, smaller],
      [`^(?=${'a?'.repeat(3_000)})${'b?'.repeat(3_000)}`, parts, smaller],
      [
        '('.repeat(5_000) + ')'.repeat(5_000),
        'it is nested too deeply: Maximum call stack size exceeded',
        nested,
      ],
      [
        '(?:a'.repeat(600) + ')*'.repeat(600),
        'it is nested too deeply: error parsing regexp: expression nests too deeply',
        nested,
      ],
      ['a{2,1}', 'numbers out of order in {} quantifier', syntax],
      ['[a-z]{2', 'Incomplete quantifier', syntax],
      [`^(?:${'\\p{L}'.repeat(100)})`, ranges, fewer],
      ['[\\p{L}-]|'.repeat(20_000), ranges, fewer],
      [`^[${'ab'.repeat(100_000)}]+$`, ranges, fewer],
    ];
    for (const [pattern, message, fix] of refused)
      t.throws(() => patternOf(pattern), { message, fix }, pattern.slice(0, 99));
    t.ok(patternOf('^(?:ab){4999}$').test('ab'.repeat(4_999)));
    t.ok(patternOf(`^(?:(?:(?:${'\\p{L}'.repeat(70)}){100}){0}){9000}$`).test(''));
  },
);

const visits = '/v1/orchard/visits?filter[kind]=oak&code=';
const parameters = '/paths/~1visits/get/parameters/-';
const tree = '/components/schemas/Tree/properties';

/** Starts the orchard, whose trees have more properties, and whose visits are found by a code. */
async function startOrchard(t: Test, properties: Record<string, object>, code: string) {
  const edits = Object.entries(properties).map(([name, schema]) => [`${tree}/${name}`, schema] as const);
  const parameter = { name: 'code', in: 'query', schema: { type: 'string', pattern: code } };
  const contract = loadEdited(orchardDocument, { ...Object.fromEntries(edits), [parameters]: parameter });
  const { call } = await startService(t, engines[0]!, { ...orchard, contract });
  const put = (more: object) =>
    call('PUT', '/v1/orchard/trees/a', {
      body: JSON.stringify({ kind: 'tree', height: 1, roots: 1, ...more }),
    });
  return { put, find: (text: string) => call('GET', `${visits}${text}`) };
}

t.test('Node.js itself matches no text with a pattern that backtracking could take long for', async (t) => {
  const linear = String.raw`^(?:b+)+$ ^(?=.*\d)(?!.*z)\w+$ ^(?:n_|m_) ^(?:x|y)+$ ^(?:\d\d?)+$`.split(' ');
  const [word, password, prefix, name, code] = linear as [string, string, string, string, string];
  const native = RegExp;
  globalThis.RegExp = new Proxy(native, {
    construct(target, [source, flags]: [string, string]) {
      if (linear.includes(source)) throw new Error(`${source} became a regular expression`);
      return new target(source, flags);
    },
  });
  t.teardown(() => (globalThis.RegExp = native));
  const mixed = {
    properties: { n_a: { type: 'integer' } },
    patternProperties: { [prefix]: { minimum: 1 } },
    additionalProperties: { type: 'string' },
  };
  const { put, find } = await startOrchard(
    t,
    {
      words: { type: 'string', pattern: word, default: 'b' },
      secret: { type: 'string', pattern: password, example: 'a1' },
      mixed: { type: 'object', ...mixed },
      named: { type: 'object', propertyNames: { pattern: name } },
    },
    code,
  );
  const right = { words: 'bb', secret: 'a1', mixed: { n_a: 1, m_a: 2 }, named: { xy: 1 } };
  t.match(await put(right), { status: 200, json: right });
  t.match(await put({ words: 'c' }), error(40002, `words must match pattern "${word}"`));
  t.match(await put({ secret: 'az1' }), error(40002, `secret must match pattern "${password}"`));
  t.match(await put({ mixed: { n_a: 0 } }), error(40002, 'mixed.n_a must be >= 1'));
  t.match(await put({ mixed: { m_a: 0 } }), error(40002, 'mixed.m_a must be >= 1'));
  t.match(await put({ mixed: { a: 1 } }), error(40002, 'mixed.a must be a string, not a number'));
  t.match(await put({ named: { z: 1 } }), { status: 400 });
  t.match(await find('123'), { status: 200 });
  t.match(await find('1a'), error(40006, `code must match pattern "${code}"`));
});

t.test('the characters of a text, times the size of its pattern, count as checks', async (t) => {
  const pattern = '^(?:[a-z]{2}|[a-z]{3}|-)*$';
  const maximal = '^(?:a{4999}|b{4998})*$';
  const { put, find } = await startOrchard(
    t,
    {
      words: { type: 'string', pattern },
      names: { type: 'array', items: { type: 'string', pattern: maximal } },
    },
    maximal,
  );
  const { size } = patternOf(pattern) as LinearPattern;
  const most = Math.floor((64 * 30_000) / size);
  const costly = 'it takes too long to check: send fewer values at a time';
  // The response, which has the text again, is not counted.
  t.match(await put({ words: 'a'.repeat(0.8 * most) }), { status: 200 });
  t.match(await put({ words: 'a'.repeat(most + 1) }), error(40002, costly));
  t.match(await find('a'.repeat(100)), error(40006, `code must match pattern "${maximal}"`));
  t.match(await find('a'.repeat(200)), error(40006, costly));
  // Also the end of each text.
  t.match(await put({ names: Array(100).fill('') }), { status: 200 });
  t.match(await put({ names: Array(200).fill('') }), error(40002, costly));
});
