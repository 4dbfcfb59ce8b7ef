// Patterns: those that are slow are refused with a text on which they take long; all others take little for every text.
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import t from 'tap';
import { loadContract } from '../../dist/contract/contract.js';
import { ContractError } from '../../dist/contract/contract-text.js';
import { effortOf } from '../../dist/contract/pattern.js';
import { Compiler, createResponseValidator, createValidator } from '../../dist/http/request/validation.js';

/** A contract whose parameter has a schema. */
function contractOf(schema: object) {
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
  return loadContract(Buffer.from(JSON.stringify(document)));
}

/** The fault of a contract whose parameter has a pattern. */
function faultOf(pattern: string, maxLength?: number): string | undefined {
  try {
    contractOf({ type: 'string', pattern, maxLength });
    return undefined;
  } catch (error) {
    if (error instanceof ContractError) return error.faults[0]!.message;
    throw error;
  }
}

/** The text that a fault shows. */
function textIn(fault: string): string {
  const [, shown = ''] = / match the text (.*)$/s.exec(fault) ?? [];
  const pieces = [...shown.matchAll(/("(?:[^"\\]|\\.)*")(?: (\d+) times)?/g)];
  return pieces.map(([, text, times]) => (JSON.parse(text!) as string).repeat(Number(times ?? 1))).join('');
}

t.test('a pattern that takes long is refused, and shown with a text on which it takes long', async (t) => {
  const patterns = [
    '^\\s+|\\s+$',
    'a*a*$',
    '(a+)+$',
    '([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*@',
    '^(a|a)*$',
    '^(a|aa)+$',
    '^(\\w+\\s?)*$',
    '^(.*)(.*)(.*)x$',
    '^(a?){30}a{30}$',
    '^(?:a{0,50}){50}$',
    '^(?=(a+)+b)',
    '^(?:(?=a{2000}).)*$',
    '^(a+)\\1$',
    '^(?<x>a+)\\k<x>$',
    '[a-z]+@',
    '^(\\p{L}|\\w)+$',
    '^(é|[à-ö])+$',
    '^.+@.+$',
    '^\\w+([.-]?\\w+)*@\\w+([.-]?\\w+)*(\\.\\w{2,3})+$',
    '(\\{question\\}[\\s\\S]*?\\{content\\}|\\{content\\}[\\s\\S]*?\\{question\\})',
  ];
  for (const pattern of patterns) {
    const fault = faultOf(pattern) ?? 'none';
    t.match(fault, `${pattern} is too slow: it takes too long to match the text `);
    const match = () => {
      const context = { pattern, text: textIn(fault) };
      runInNewContext('new RegExp(pattern, "u").test(text)', context, { timeout: 50 });
    };
    t.throws(match, { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' }, fault);
  }
});

t.test('a pattern that only looks slow is accepted', async (t) => {
  const patterns = [
    '^(key_)?[a-zA-Z0-9+/=]{32,100}$',
    '[a-f\\d]{24}',
    '^[^:]+:[^:]+$',
    '^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$',
    '^[a-z0-9]+(-[a-z0-9]+)*$',
    '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
    '^(\\d{4})-(\\d{2})-(\\d{2})T(\\d{2}):(\\d{2}):(\\d{2}(?:\\.\\d*)?)((-(\\d{2}):(\\d{2})|Z)?)$',
    '^(?=.*[A-Z])(?=.*\\d).{8,}$',
    '^(?!-)[a-z-]{1,63}(?<!-)$',
    '^https?:\\/\\/(www\\.)?[-a-zA-Z0-9@:%._+~#=]{1,256}\\.[a-zA-Z0-9()]{1,6}\\b([-a-zA-Z0-9()@:%_+.~#?&/=]*)$',
    '^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-((?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\\.(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\\+([0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*))?$',
    '^[0-9]+(ns|us|ms|s|m|h)$',
    '^\\p{L}[\\p{L} ]*\\p{L}$',
    '^(["\'])[a-z]*\\1$',
    '^(.)\\1*x',
    '^(?:|a)*$',
    '^(?:a{1000}){1000}$',
    'x{0,1000}y$',
    '\\S+',
    '([a-z|_])(,\\1)*',
  ];
  for (const pattern of patterns) t.equal(faultOf(pattern), undefined, pattern);
});

t.test('with maxLength, a pattern is judged by the texts of this length', async (t) => {
  const between = '(\\{question\\}[\\s\\S]*?\\{content\\}|\\{content\\}[\\s\\S]*?\\{question\\})';
  for (const [pattern, accepted, refused] of [
    [between, 5_000, 30_000],
    ['^.+@.+$', 5_000, 10_000],
    ['^.*.*.*x$', 200, 1_000],
    ['^(a+)+$', 15, 30],
  ] as const) {
    t.equal(faultOf(pattern, accepted), undefined, pattern);
    const fault = faultOf(pattern, refused) ?? 'none';
    const start = `${pattern} is too slow: even within maxLength, it takes `;
    t.equal(fault.slice(0, start.length), start);
    t.match(fault, / million comparisons to match the text /);
    t.ok(textIn(fault).length <= refused, fault);
  }
});

t.test('a text that is longer than maxLength is not matched, since that could take very long', async (t) => {
  const slow = { type: 'string', pattern: '^(?:a+)+$', maxLength: 15 };
  const fault = 'must have at most 15 characters';
  for (const [schema, value, message] of [
    [slow, 'a', undefined],
    [slow, 'aa!', 'must match pattern "^(?:a+)+$"'],
    [slow, `${'a'.repeat(100)}!`, fault],
    [{ ...slow, type: ['string', 'integer'] }, `${'a'.repeat(100)}!`, fault],
    [{ type: 'object', propertyNames: slow }, { [`${'a'.repeat(100)}!`]: '' }, fault],
    [{ oneOf: [slow, { type: 'boolean' }] }, `${'a'.repeat(100)}!`, fault],
  ] as const) {
    const { document, operations } = contractOf(schema);
    const given = operations[0]!.parameters[0]!.schema;
    for (const create of [createValidator, createResponseValidator]) {
      const found = create(new Compiler(document), given, 'json')(value);
      if (message === undefined) t.equal(found, undefined);
      else t.ok(found?.includes(message), `${found}`);
    }
  }
});

t.test('a pattern is refused if its parts are too many, or if it has flags inside', async (t) => {
  for (const pattern of [`^${'(?:|a?)'.repeat(20)}b$`, '(?<=^.*)b']) {
    t.equal(faultOf(pattern), `${pattern} is too slow: it can match in too many ways`);
  }
  t.match(faultOf('^(?i:a)$'), /Invalid group|flags inside a pattern are not supported/);
});

type Rest = (at: number) => boolean;
/** A pattern, written, and how it matches from a place; `rest` is what follows. */
interface Random {
  readonly text: string;
  readonly match: (at: number, rest: Rest) => boolean;
}
/** The text that is matched, and the characters that have been compared. */
const matched = { text: '', steps: 0 };

const characters = fc.constantFrom('a', 'b', '[ab]', '[^a]', '.').map((text): Random => {
  const one = new RegExp(`^${text}$`, 'u');
  return {
    text,
    match(at: number, rest: Rest) {
      matched.steps++;
      return at < matched.text.length && one.test(matched.text[at]!) && rest(at + 1);
    },
  };
});

const { random } = fc.letrec<{ random: Random }>((tie) => ({
  random: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    characters,
    fc.tuple(tie('random'), tie('random')).map(([a, b]) => ({
      text: a.text + b.text,
      match: (at: number, rest: Rest) => a.match(at, (next) => b.match(next, rest)),
    })),
    fc.tuple(tie('random'), tie('random')).map(([a, b]) => ({
      text: `(?:${a.text}|${b.text})`,
      match: (at: number, rest: Rest) => a.match(at, rest) || b.match(at, rest),
    })),
    fc
      .tuple(
        tie('random'),
        fc.constantFrom<[string, number, number][]>(
          ['*', 0, Infinity],
          ['+', 1, Infinity],
          ['?', 0, 1],
          ['{1,3}', 1, 3],
        ),
      )
      .map(([{ text, match }, [sign, min, max]]) => {
        const from = (at: number, count: number, rest: Rest): boolean =>
          (count < max && match(at, (next) => (next > at || count < min) && from(next, count + 1, rest))) ||
          (count >= min && rest(at));
        return { text: `(?:${text})${sign}`, match: (at: number, rest: Rest) => from(at, 0, rest) };
      }),
    tie('random').map(({ text, match }) => ({
      text: `(?=${text})`,
      match: (at: number, rest: Rest) => match(at, () => true) && rest(at),
    })),
  ),
}));

t.test('no text takes more steps than a pattern is said to take', async () => {
  const maxLength = 14;
  const texts = fc.array(fc.constantFrom('a', 'b', '\n'), { maxLength }).map((chars) => chars.join(''));
  fc.assert(
    fc.property(
      random,
      fc.boolean(),
      fc.boolean(),
      fc.array(texts, { minLength: 4, maxLength: 8 }),
      (...values) => {
        const [one, isAnchored, hasEnd, samples] = values;
        const pattern = `${isAnchored ? '^' : ''}(?:${one.text})${hasEnd ? '$' : ''}`;
        const [{ steps }, within] = [effortOf(pattern), effortOf(pattern, maxLength)];
        if (within.steps > steps) throw new Error(`${pattern} takes more steps within a length`);
        for (const text of samples) {
          [matched.text, matched.steps] = [text, 0];
          const isFound = Array.from({ length: isAnchored ? 1 : text.length + 1 }, (_, start) => start).some(
            (start) => one.match(start, (at) => !hasEnd || at === text.length),
          );
          if (isFound !== new RegExp(pattern, 'u').test(text)) throw new Error(`another match of ${text}`);
          // What a repetition at the end takes is at most two steps more for each character.
          const limit = (within.steps + 2) * (text.length + 1);
          if (matched.steps > limit)
            throw new Error(`${matched.steps} steps for ${JSON.stringify(text)}, not ${limit}`);
        }
      },
    ),
    { numRuns: 1_000 },
  );
});
