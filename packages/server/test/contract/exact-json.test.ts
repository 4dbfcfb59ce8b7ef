// The exact JSON parser: equal to a BigInt oracle for all notations of numbers, and to JSON.parse for everything else.
import fc from 'fast-check';
import t from 'tap';
import { parseExactJson } from '../../dist/index.js';

/** Whether a number has more digits than a double keeps. */
const isInexact = (value: unknown) => typeof value === 'symbol';

/** The meaning of a number literal, computed only with BigInt: an integer, or a fraction. */
function oracle(literal: string): bigint | 'fraction' {
  const [mantissa, exponent = '0'] = literal.toLowerCase().split('e') as [string, string?];
  const [whole, fraction = ''] = mantissa.split('.') as [string, string?];
  const scale = BigInt(exponent) - BigInt(fraction.length);
  const digits = BigInt(whole.replace('-', '') + fraction) * (whole.startsWith('-') ? -1n : 1n);
  if (scale >= 0n) return digits * 10n ** scale;
  const divisor = 10n ** -scale;
  return digits % divisor === 0n ? digits / divisor : 'fraction';
}

const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
const nearEdges = fc
  .record({
    edge: fc.constantFrom(0n, 2n ** 53n, -(2n ** 53n), int64.max, int64.min, 10n ** 15n, 10n ** 19n),
    by: fc.bigInt({ min: -3n, max: 3n }),
  })
  .map(({ edge, by }) => edge + by);
const integer = fc.oneof(nearEdges, fc.bigInt({ min: -(10n ** 21n), max: 10n ** 21n }));

/**
 * Spellings of numbers: an integer with its point moved, zeros added and an exponent that may or may not make up for
 * it.
 */
const spelling = fc
  .record({
    value: integer,
    point: fc.nat(25),
    zeros: fc.nat(5),
    off: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: -3, max: 3 })),
    mark: fc.constantFrom('e', 'E', 'e+', 'E+'),
  })
  .map(({ value, point, zeros, off, mark }) => {
    const sign = value < 0n ? '-' : '';
    const digits = value.toString().replace('-', '');
    const padded = digits.padStart(point + 1, '0');
    const whole = padded.slice(0, padded.length - point).replace(/^0+(?=\d)/, '');
    const fraction = padded.slice(padded.length - point) + '0'.repeat(zeros);
    const exponent = point + off;
    const tail = exponent === 0 ? '' : exponent < 0 ? `e${exponent}` : `${mark}${exponent}`;
    return `${sign}${whole}${fraction === '' ? '' : `.${fraction}`}${tail}`;
  });

/** The expected result for a literal: exact up to 19 digits, and never an integer for a fraction. */
function fits(literal: string, value: unknown): boolean {
  const meant = oracle(literal);
  if (meant === 'fraction')
    return isInexact(value) || (typeof value === 'number' && !Number.isInteger(value));
  if (meant >= int64.min && meant < 2n ** 64n) {
    return (typeof value === 'bigint' || Number.isSafeInteger(value)) && BigInt(value as number) === meant;
  }
  // Beyond 64 bits, a double has the same digits, or the number counts as inexact.
  return isInexact(value) || (typeof value === 'number' && oracle(String(value)) === meant);
}

t.test('every notation of an integer is parsed exactly, and no fraction becomes an integer', async () => {
  fc.assert(
    fc.property(spelling, (literal) => {
      const native = JSON.parse(literal) as number;
      const value = parseExactJson(literal);
      // Literals that a double represents exactly are parsed by JSON.parse alone.
      return (
        fits(literal, value) ||
        (oracle(literal) === 'fraction' && Object.is(value, native) && !Number.isInteger(native))
      );
    }),
    { numRuns: 20_000 },
  );
});

t.test('the limits of the range are parsed exactly', async (t) => {
  const cases: [string, unknown][] = [
    ['9007199254740992', 9007199254740992n],
    ['-9007199254740993', -9007199254740993n],
    ['9.007199254740993e15', 9007199254740993n],
    ['900719925474099300e-2', 9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['18446744073709551615', 18446744073709551615n],
    ['-0', -0],
    ['0e999999999', 0],
    ['1e999999999', Infinity],
    ['-1e999999999999999999999', -Infinity],
    ['-1.2314731698482606e+107', -1.2314731698482606e107],
    ['1797693134862315700e290', Number.MAX_VALUE],
  ];
  for (const [literal, value] of cases) {
    t.ok(Object.is(parseExactJson(literal), value), `${literal} is ${String(value)}`);
    const inside = parseExactJson(` {"a":[ ${literal} ,${literal}]}\n`);
    t.strictSame(inside, { a: [value, value] }, `${literal} inside`);
  }
});

t.test('a number that a double rounds is detected', async (t) => {
  for (const literal of [
    '900719925474099.14e1',
    '1.00000000000000000001',
    '1e-400',
    '-9223372036854775809',
    '12345678901234567890123',
    '1.23456789012345678e+100',
  ])
    t.equal((parseExactJson(literal) as symbol).description, literal);
});

/** Equality, except for integers that a double has rounded. */
function alike(mine: unknown, native: unknown): boolean {
  if (typeof native === 'number') {
    return (
      Object.is(mine, native) || (Number.isInteger(native) && (typeof mine === 'bigint' || isInexact(mine)))
    );
  }
  if (typeof native !== 'object' || native === null) return mine === native;
  if (typeof mine !== 'object' || mine === null || Array.isArray(mine) !== Array.isArray(native))
    return false;
  if (Object.getPrototypeOf(mine) !== Object.getPrototypeOf(native)) return false;
  const [names, nativeNames] = [Object.keys(mine), Object.keys(native)];
  return (
    names.length === nativeNames.length &&
    names.every((name, i) => {
      const value = (of: object) => Object.getOwnPropertyDescriptor(of, name)?.value as unknown;
      return name === nativeNames[i] && alike(value(mine), value(native));
    })
  );
}

t.test('everything else is parsed as by JSON.parse', async () => {
  const value = fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' });
  const text = fc
    .record({ value, indent: fc.constantFrom('', ' ', '\t', '\n'), twice: fc.boolean() })
    .map(({ value, indent, twice }) => {
      const json = JSON.stringify(value, undefined, indent);
      // The fraction causes the exact parse; repeated and unusual keys must have the same result as natively.
      return twice
        ? `{"b":1,"a":1.5,"__proto__":${json},"":${json},"b":${json},"__proto__":{"c":${json}}}`
        : json;
    });
  fc.assert(
    fc.property(text, (text) => alike(parseExactJson(text), JSON.parse(text))),
    { numRuns: 2_000 },
  );
});

t.test('what JSON.parse rejects is rejected, and nothing else', async () => {
  const broken = fc.oneof(
    fc.string(),
    fc
      .record({ text: fc.json(), at: fc.nat(), junk: fc.string({ maxLength: 2 }) })
      .map(({ text, at, junk }) => {
        const place = at % (text.length + 1);
        return text.slice(0, place) + junk + text.slice(place + 1);
      }),
    fc.constantFrom(
      ...['01', '1.', '.5', '1e', '+1', '0x1', '1_000', '1234567890123456x', '[1.5', '"1.5', '-'],
      ...['NaN', '1e5 1', '\u00a01.5', '{"a":1.5,}'],
    ),
  );
  const fault = (read: (text: string) => unknown, text: string) => {
    try {
      read(text);
      return 'none';
    } catch (error) {
      return error instanceof SyntaxError ? 'syntax' : `no syntax error: ${String(error)}`;
    }
  };
  fc.assert(
    fc.property(broken, (text) => fault(parseExactJson, text) === fault(JSON.parse, text)),
    { numRuns: 5_000 },
  );
});

t.test('strings are never numbers, whatever they contain', async (t) => {
  const digits = '9007199254740993';
  for (const inside of [digits, `\\"${digits}`, '\\\\\\"1.5', '\\u0022 1e5', `,${digits}]`]) {
    const text = `["${inside}", 1.5, "${inside}"]`;
    t.strictSame(parseExactJson(text), JSON.parse(text));
  }
});

t.test('exact numbers are read as deep as JSON.parse reads', async (t) => {
  const deep = 100_000;
  let value = parseExactJson(`${'['.repeat(deep)}9007199254740993${']'.repeat(deep)}`);
  while (Array.isArray(value)) [value] = value as unknown[];
  t.equal(value, 9007199254740993n);
});
