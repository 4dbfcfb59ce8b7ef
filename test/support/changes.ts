// Every condition of a change in every state of a document, for any collection on any engine.
import type { Test } from 'tap';
import type { Change, Collection, Id, Outcome } from '../../dist/storage/interface.js';

const [a, b, c] = ['{"name":"a"}', '{"name":"b"}', '{"name":"é\\\\"}'];
/** What is stored before, the change, its outcome, and what is stored afterwards. */
type Case = [string | null, Change, Outcome, string | null];
const cases: readonly Case[] = [
  [null, { when: 'absent', text: a }, 'inserted', a],
  [a, { when: 'absent', text: a }, 'same', a],
  [b, { when: 'absent', text: a }, 'other', b],
  [null, { when: 'present', text: a }, 'missing', null],
  [a, { when: 'present', text: a }, 'same', a],
  [b, { when: 'present', text: a }, 'replaced', a],
  [null, { when: 'present', text: null }, 'missing', null],
  [a, { when: 'present', text: null }, 'deleted', null],
  [null, { when: 'any', text: a }, 'inserted', a],
  [a, { when: 'any', text: a }, 'same', a],
  [b, { when: 'any', text: a }, 'replaced', a],
  [null, { when: 'any', text: null }, 'missing', null],
  [a, { when: 'any', text: null }, 'deleted', null],
  [null, { when: 'equals', expected: c, text: a }, 'missing', null],
  [a, { when: 'equals', expected: c, text: a }, 'same', a],
  [b, { when: 'equals', expected: c, text: a }, 'other', b],
  [c, { when: 'equals', expected: c, text: a }, 'replaced', a],
  [a, { when: 'equals', expected: a, text: a }, 'same', a],
  [null, { when: 'equals', expected: c, text: null }, 'missing', null],
  [b, { when: 'equals', expected: c, text: null }, 'other', b],
  [c, { when: 'equals', expected: c, text: null }, 'deleted', null],
];

/**
 * Makes every change in every state, one after the other and all together, and repeats what was stored.
 * @param newSubject - Returns a subject without documents.
 * @param idOf - Returns different ids in ascending order.
 */
export async function checkChanges<I extends Id>(
  t: Test,
  documents: Collection<I>,
  newSubject: () => string,
  idOf: (i: number) => I,
): Promise<void> {
  for (const together of [false, true]) {
    const subject = newSubject();
    const make = async (i: number, [before, change, outcome]: Case) => {
      if (before !== null) await documents.write(subject, idOf(i), { when: 'absent', text: before });
      t.equal(
        await documents.write(subject, idOf(i), change),
        outcome,
        `${JSON.stringify(change)} of ${before}`,
      );
    };
    if (together) await Promise.all(cases.map((one, i) => make(100 + i, one)));
    else for (const [i, one] of cases.entries()) await make(100 + i, one);
    const after = cases.map(([, , , after]) => after);
    const stored = after.filter((text) => text !== null);
    t.equal((await documents.page(subject, { limit: cases.length })).json, stored.join());
    t.strictSame(
      await Promise.all(cases.map((_, i) => documents.get(subject, idOf(100 + i)))),
      after.map((text) => text ?? undefined),
    );
    const repeated = cases.flatMap(([, change, outcome], i) =>
      outcome === 'replaced' || outcome === 'inserted' ? documents.write(subject, idOf(100 + i), change) : [],
    );
    t.strictSame(new Set(await Promise.all(repeated)), new Set(['same']));
  }
}
