// Random changes of documents, and reads, which any collection on any engine must carry out as a map would.
import fc from 'fast-check';
import type { Change, Collection, Id, Outcome } from '../../dist/storage/interface.js';

// The last is long enough that its page is read differently.
const text = fc.constantFrom('{"name":"a"}', '{"name":"é\\\\"}', `{"name":"${'x'.repeat(600)}"}`);
const textOrNull = fc.option(text, { nil: null });
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ when: fc.constant('absent' as const), text }),
  fc.record({ when: fc.constantFrom('present' as const, 'any' as const), text: textOrNull }),
  fc.record({ when: fc.constant('equals' as const), expected: text, text: textOrNull }),
);

/** The outcome of a change, by what is stored: 'inserted', 'replaced' and 'deleted' if it has an effect. */
function expectedOutcome(change: Change, stored: string | undefined): Outcome {
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
  documents: Collection<I>,
  newSubject: () => string,
  ids: readonly I[],
): Promise<void> {
  const id = fc.constantFrom(...ids);
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('change' as const), id, change }) },
    // Earlier changes have been acknowledged; the others are in flight together.
    fc.record({ kind: fc.constant('get' as const), id }),
    fc.record({ kind: fc.constant('page' as const), limit: fc.integer({ min: 1, max: ids.length }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const subject = newSubject();
      const model = new Map<I, string>();
      const list = () => ids.flatMap((id) => model.get(id) ?? []);
      let inFlight: Promise<void>[] = [];
      const expect = async (call: Promise<unknown>, expected: unknown) => {
        const result = await call;
        if (result !== expected) throw new Error(`${String(result)} instead of ${String(expected)}`);
      };
      const page = async (limit: number) => (await documents.page(subject, { limit })).json;
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
        else await expect(page(step.limit), list().slice(0, step.limit).join());
      }
      await Promise.all(inFlight);
      await expect(page(ids.length), list().join());
    }),
    { numRuns: 60 },
  );
}
