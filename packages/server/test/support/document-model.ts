// Random changes of documents, and reads, which any collection on any engine must carry out as a map would.
import { Documents } from '../../dist/index.js';
import { inspect, isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type {
  Change,
  Id,
  IdRange,
  ListRange,
  OpenCollection,
  Outcome,
} from '../../dist/storage/core/interface.js';

// The last is long enough that its page is read differently.
const text = fc.constantFrom('{"name":"a"}', '{"name":"é\\\\"}', `{"name":"${'x'.repeat(600)}"}`);
/** Changes of a document to one of some texts. */
export function changesTo(text: fc.Arbitrary<string>): fc.Arbitrary<Change> {
  const textOrNull = fc.option(text, { nil: null });
  return fc.oneof(
    fc.record({ when: fc.constant('absent' as const), text }),
    fc.record({ when: fc.constantFrom('present' as const, 'any' as const), text: textOrNull }),
    fc.record({ when: fc.constant('equals' as const), expected: text, text: textOrNull }),
  );
}
const change = changesTo(text);

/** Ranges with such ends, on either side of which there may be none. */
export function rangesOf<I extends Id>(id: fc.Arbitrary<I>): fc.Arbitrary<IdRange<I>> {
  const none = fc.constant({});
  return fc
    .tuple(
      fc.oneof(none, fc.record({ after: id }), fc.record({ from: id })),
      fc.oneof(none, fc.record({ before: id }), fc.record({ to: id })),
    )
    .map(([start, end]): IdRange<I> => ({ ...start, ...end }));
}

/**
 * Whether an id is in a range.
 * @param order - A negative number if the first id comes before the second, 0 if they are the same.
 */
export function isInRange<I extends Id>(
  { after, from, before, to }: IdRange<I>,
  id: I,
  order: (a: I, b: I) => number,
): boolean {
  return (
    (after === undefined || order(id, after) > 0) &&
    (from === undefined || order(id, from) >= 0) &&
    (before === undefined || order(id, before) < 0) &&
    (to === undefined || order(id, to) <= 0)
  );
}

/** The outcome of a change, by what is stored: 'inserted', 'replaced' and 'deleted' if it has an effect. */
export function expectedOutcome(change: Change, stored: string | undefined): Outcome {
  if (stored === undefined) {
    return change.text !== null && (change.when === 'absent' || change.when === 'any')
      ? 'inserted'
      : 'missing';
  }
  if (change.text === stored) return 'same';
  if (change.when === 'absent' || (change.when === 'equals' && change.expected !== stored)) return 'other';
  return change.text === null ? 'deleted' : 'replaced';
}

/**
 * Makes random changes, many at once, and reads between them, and compares everything with a map.
 * @param newSubject - Returns a subject without documents.
 * @param ids - Ids in ascending order.
 * @throws Error with the shortest sequence of steps that has another result.
 */
export async function checkChanges<I extends Id>(
  documents: OpenCollection<I>,
  newSubject: () => string,
  ids: readonly I[],
): Promise<void> {
  const id = fc.constantFrom(...ids);
  const range = rangesOf(id);
  const order = (a: I, b: I) => ids.indexOf(a) - ids.indexOf(b);
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('change' as const), id, change }) },
    // Earlier changes have been acknowledged; the others are in flight together.
    fc.record({ kind: fc.constant('get' as const), id }),
    fc.record({
      kind: fc.constant('page' as const),
      range,
      descending: fc.boolean(),
      limit: fc.integer({ min: 1, max: ids.length }),
    }),
    fc.record({ kind: fc.constant('count' as const), range }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const subject = newSubject();
      const model = new Map<I, string>();
      const stored = (range: IdRange<I> = {}) =>
        ids
          .filter((id) => isInRange(range, id, order) && model.has(id))
          .map((id) => ({ subject, id, text: model.get(id)! }));
      const list = (range?: IdRange<I>) => stored(range).map(({ text }) => text);
      let inFlight: Promise<void>[] = [];
      const expect = async (call: Promise<unknown>, expected: unknown) => {
        const result = await call;
        if (!isDeepStrictEqual(result, expected))
          throw new Error(`${inspect(result)} instead of ${inspect(expected)}`);
      };
      const page = async (range: ListRange<I>) => (await documents.page(subject, range)).json;
      for (const step of steps) {
        if (step.kind === 'change') {
          const { id, change } = step;
          const outcome = expectedOutcome(change, model.get(id));
          if (outcome === 'deleted') model.delete(id);
          else if (outcome === 'inserted' || outcome === 'replaced') model.set(id, change.text!);
          inFlight.push(expect(documents.write(subject, id, change), outcome));
          continue;
        }
        await Promise.all(inFlight);
        inFlight = [];
        if (step.kind === 'get') await expect(documents.get(subject, step.id), model.get(step.id));
        else if (step.kind === 'count')
          await expect(new Documents(documents, {}).count(subject, step.range), list(step.range).length);
        else {
          const { range, descending, limit } = step;
          const listed = descending ? stored(range).reverse() : stored(range);
          const wanted = listed.slice(0, limit);
          await expect(page({ ...range, descending, limit }), wanted.map(({ text }) => text).join());
          await expect(documents.stored(subject, { ...range, descending, limit }), wanted);
        }
      }
      await Promise.all(inFlight);
      await expect(page({ limit: ids.length }), list().join());
    }),
    { numRuns: 60 },
  );
}
