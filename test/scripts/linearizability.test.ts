// Tests the checker of prove:threads: it finds a contradiction exactly if no order of the requests explains the outcomes.
import fc from 'fast-check';
import t from 'tap';
import { Register, type State } from '../../scripts/lib/linearizability.js';

type Operation = { act: 'read' } | { act: 'write'; to: string } | { act: 'append' } | { act: 'delete' };

/** A register with unconditional and conditional writes. */
function apply(state: State, operation: Operation): { outcome: string; state: State } {
  if (operation.act === 'write') return { outcome: 'ok', state: operation.to };
  if (state === null) return { outcome: 'missing', state };
  if (operation.act === 'read') return { outcome: state, state };
  if (operation.act === 'delete') return { outcome: 'ok', state: null };
  return { outcome: `${state}+`, state: `${state}+` };
}

/** A request with its begin, its end and its outcome, which is undefined if it is unknown. */
interface Request {
  readonly operation: Operation;
  readonly begin: number;
  readonly end: number;
  readonly outcome: string | undefined;
}

/** Tries all orders. */
function isExplained(state: State, left: readonly Request[]): boolean {
  if (left.every(({ outcome }) => outcome === undefined)) return true;
  const firstEnd = Math.min(...left.map(({ end, outcome }) => (outcome === undefined ? Infinity : end)));
  return left.some((request) => {
    if (request.begin > firstEnd) return false;
    const next = apply(state, request.operation);
    if (request.outcome !== undefined && request.outcome !== next.outcome) return false;
    return isExplained(
      next.state,
      left.filter((other) => other !== request),
    );
  });
}

function check(requests: readonly Request[]) {
  const register = new Register<Operation>(apply, null);
  const events = requests.flatMap((request) => {
    const { begin, end, operation, outcome } = request;
    let begun: ReturnType<typeof register.begin>;
    return [
      { at: begin, run: () => (begun = register.begin(operation)) },
      {
        at: end,
        run: () => {
          register.end(begun, outcome);
        },
      },
    ];
  });
  for (const { run } of events.sort((a, b) => a.at - b.at)) run();
  return register;
}

const write = (to: string): Operation => ({ act: 'write', to });
const read: Operation = { act: 'read' };
const append: Operation = { act: 'append' };

const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.constant(read),
  fc.constant(append),
  fc.constant<Operation>({ act: 'delete' }),
  fc.constantFrom('a', 'b').map(write),
);
/** Generates requests that overlap at random. No two events happen at the same time. */
const requests = fc
  .array(
    fc.record({
      operation,
      outcome: fc.option(fc.constantFrom('ok', 'missing', 'a', 'b', 'a+', 'b+'), { nil: undefined }),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .chain((sent) =>
    fc.shuffledSubarray([...Array(2 * sent.length).keys()], { minLength: 2 * sent.length }).map((times) =>
      sent.map((one, i): Request => {
        const [begin = 0, end = 0] = times.slice(2 * i, 2 * i + 2).sort((a, b) => a - b);
        return { ...one, begin, end };
      }),
    ),
  );

/** Gives requests the outcomes of a random order in which they could have taken effect. */
const explained = fc
  .tuple(requests, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })))
  .map(([sent, random]) => {
    const place = new Map(sent.map((one) => [one, one.begin + random.next().value! * (one.end - one.begin)]));
    let state: State = null;
    const outcomes = new Map<Request, string>();
    for (const one of [...sent].sort((a, b) => place.get(a)! - place.get(b)!)) {
      const next = apply(state, one.operation);
      ({ state } = next);
      outcomes.set(one, next.outcome);
    }
    return sent.map((one): Request => ({
      ...one,
      outcome: one.outcome === undefined ? undefined : outcomes.get(one),
    }));
  });

t.test('histories that an order explains have no fault', async () => {
  fc.assert(
    fc.property(explained, (sent) => check(sent).fault === undefined),
    { numRuns: 500 },
  );
});

t.test('any history has a fault exactly if no order explains it', async () => {
  fc.assert(
    fc.property(requests, (sent) => (check(sent).fault === undefined) === isExplained(null, sent)),
    { numRuns: 2_000 },
  );
});

t.test('requests without a known outcome count as unsettled while others are on their way', (t) => {
  const register = new Register<Operation>(apply, null);
  const [one, other, read] = [
    register.begin({ act: 'write', to: 'a' }),
    register.begin({ act: 'write', to: 'b' }),
    register.begin({ act: 'read' }),
  ];
  register.end(one, undefined);
  register.end(other, undefined);
  t.equal(register.unsettled, 2);
  register.end(read, 'a');
  t.equal(register.unsettled, 1);
  t.end();
});

t.test('a request without an effect is forgotten, and open ones are counted', async (t) => {
  const register = new Register<Operation>(apply, null);
  const first = register.begin(write('a'));
  t.equal(register.state, undefined);
  register.withdraw(first);
  t.equal(register.state, null);
  register.end(register.begin(write('b')), undefined);
  t.equal(register.unsettled, 1);
  register.end(register.begin(read), 'b');
  t.strictSame([register.state, register.unsettled, register.fault], ['b', 0, undefined]);
});
