// Reservations of memory: their sum is bounded, each subject gets its share, the oldest request always proceeds, what is
// called after the end of a reservation has no effect, and clients that leave keep no memory reserved.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { createHead, listRequest } from '../../support/raw-connection.js';
import { captureLog, injectFaults, startListening } from '../../support/service.js';
import { repeatUntil } from '../../support/wait.js';
import type { ApiError } from '../../../dist/base/errors.js';
import {
  createMemoryBudget,
  type MemoryBudget,
  type Reservation,
} from '../../../dist/http/admission/memory-budget.js';

const capacity = 1_000;
/** Subjects, and networks of requests without credentials, which are one party together. */
const subject = fc.constantFrom('a', 'a', 'b', 'c', '\0x', '\0x', '\0y');

/** Fails unless nothing is reserved of a budget. */
function assertEmpty(budget: MemoryBudget): void {
  const oldest = budget.reserve('e');
  const next = budget.reserve('f');
  assert.ok(next.fits(capacity / 2), 'nothing stays reserved');
  assert.ok(!next.fits(capacity / 2 + 1), 'and nothing was released twice');
  next.release();
  oldest.release();
}

t.test('a memory budget is never exceeded, and every account gets its share', async () => {
  interface Request {
    readonly subject: string;
    readonly reservation: Reservation;
    /** What it held after the last action, or asked for since. */
    bytes: number;
    waits: boolean;
  }
  const action = fc.record({
    kind: fc.constantFrom('reserve', 'hold', 'hold', 'hold', 'release'),
    subject,
    at: fc.nat(),
    bytes: fc.nat(400),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (actions) => {
      const budget = createMemoryBudget(capacity, 1_000_000);
      /** In the order of their arrival: the first is the oldest. */
      let inside: Request[] = [];
      const heldNow = ({ reservation, bytes }: Request) =>
        reservation.state === 'evicted' ? bytes : reservation.held;
      const heldBy = (subject?: string) =>
        inside
          .slice(1)
          .filter((request) => subject === undefined || request.subject === subject)
          .reduce((sum, request) => sum + heldNow(request), 0);
      const partyOf = (subject: string) => (subject.startsWith('\0') ? '\0' : subject);
      const evicted = (request: Request) => {
        assert.notEqual(request, inside[0], 'the oldest is never evicted');
        const accounts = [...new Set(inside.map(({ subject }) => subject))];
        const share = capacity / (new Set(accounts.map(partyOf)).size + 1);
        const party = accounts.filter((subject) => partyOf(subject) === partyOf(request.subject));
        assert.ok(
          heldBy(request.subject) > share / party.length ||
            party.reduce((sum, subject) => sum + heldBy(subject), 0) > share,
          'no account loses a reservation while it and its party have no more than their shares',
        );
        inside = inside.filter((other) => other !== request);
      };

      for (const { kind, subject, at, bytes } of actions) {
        const request = inside[at % inside.length];
        if (kind === 'reserve' || request === undefined) {
          const admitted = budget.admits(bytes);
          const added: Request = { subject, reservation: budget.reserve(subject), bytes: 0, waits: false };
          added.reservation.onEvicted = () => {
            evicted(added);
          };
          inside.push(added);
          if (admitted && kind === 'reserve')
            assert.ok(added.reservation.hold(bytes), 'what is admitted fits');
        } else if (kind === 'release') {
          inside = inside.filter((other) => other !== request);
          request.reservation.release();
        } else if (!request.waits) {
          const { reservation } = request;
          if (reservation.fits(bytes)) {
            assert.ok(reservation.hold(bytes), 'what fits is not refused');
          } else if (at % 2 === 0) {
            // What has arrived may already be too much.
            request.bytes = bytes;
            if (!reservation.hold(bytes)) evicted(request);
          } else {
            request.waits = true;
            reservation.wait(bytes).then(
              () => {
                request.waits = false;
              },
              (error: unknown) => {
                if ((error as ApiError).kind === 'overloaded') evicted(request);
              },
            );
          }
        }
        await setImmediate();
        for (const request of inside) request.bytes = request.reservation.held;
        assert.ok(heldBy() <= capacity, 'what all but the oldest hold is within the bound');
        assert.notEqual(inside[0]?.reservation.state, 'waiting', 'the oldest proceeds');
      }
      for (const { reservation } of inside) reservation.release();
      assertEmpty(budget);
    }),
  );
});

t.test(
  'networks share what one more subject has, and one of them has half of the memory while others are idle',
  (t) => {
    const budget = createMemoryBudget(capacity, 1_000_000);
    const fill = (name: string, piece: number) => {
      let held = 0;
      for (;;) {
        const reservation = budget.reserve(name);
        reservation.onEvicted = () => undefined;
        if (!reservation.fits(piece) || !reservation.hold(piece)) return held;
        held += piece;
      }
    };
    budget.reserve('the oldest, which does not count');
    t.equal(fill('\0only', 10), capacity / 2);
    t.equal(fill('\0next', 10), 160, 'the next one has its share at once');
    const many = Array.from({ length: 100 }, (_, i) => fill(`\0${i}`, 1));
    t.ok(Math.min(...many) >= 1, 'and so have many');
    t.equal(fill('subject', 10), 250, 'however many there are, a subject has its share');
    t.end();
  },
);

t.test('what is called after the end of a reservation changes nothing', async (t) => {
  const patience = 500;
  const action = fc.record({
    kind: fc.constantFrom('reserve', 'hold', 'hold', 'wait', 'wait', 'allow', 'pin', 'release', 'tick'),
    subject,
    at: fc.nat(),
    bytes: fc.nat(600),
  });
  type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;
  /** A budget with the reservations that were ever made, ended ones included. */
  const create = () => ({ budget: createMemoryBudget(capacity, patience), all: [] as Reservation[] });
  const hasEnded = (reservation: Reservation | undefined) =>
    reservation?.state === 'released' || reservation?.state === 'evicted';
  const apply = ({ budget, all }: ReturnType<typeof create>, { kind, subject, at, bytes }: Action) => {
    const reservation = all[at % all.length];
    if (kind === 'reserve') all.push(budget.reserve(subject));
    else if (kind === 'hold') return reservation?.hold(bytes);
    else if (kind === 'wait' && reservation?.state !== 'waiting') reservation?.wait(bytes).catch(() => bytes);
    else if (kind === 'allow' && reservation) reservation.onEvicted = () => undefined;
    else if (kind === 'pin' && reservation) reservation.onEvicted = undefined;
    else if (kind === 'release') reservation?.release();
    else if (kind === 'tick') mock.timers.tick(bytes);
    return undefined;
  };
  const view = ({ budget, all }: ReturnType<typeof create>) => ({
    reservations: all.map(({ state, held }) => ({ state, held })),
    admitted: [1, 100, 300, 500, 900].map((bytes) => budget.admits(bytes)),
  });
  t.teardown(() => {
    mock.timers.reset();
  });
  fc.assert(
    fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      mock.timers.reset();
      mock.timers.enable({ apis: ['setTimeout'] });
      const one = create();
      // The same, without the calls after an end.
      const other = create();
      for (const step of actions) {
        const target = one.all[step.at % one.all.length];
        const late = step.kind !== 'reserve' && step.kind !== 'tick' && hasEnded(target);
        const before = view(one);
        const result = apply(one, step);
        if (late) {
          assert.deepEqual(view(one), before);
          assert.notEqual(result, true, 'nothing can be held after the end');
          assert.equal(target?.fits(0), false);
        } else if (step.kind !== 'tick') {
          assert.equal(apply(other, step), result);
        }
        assert.deepEqual(view(one), view(other));
        for (const { state, held } of one.all)
          assert.ok(held === 0 || state === 'active' || state === 'waiting');
        const open = one.all.filter((reservation) => !hasEnded(reservation));
        const counted = open.slice(1).reduce((sum, { held }) => sum + held, 0);
        assert.ok(counted <= capacity, 'what all but the oldest hold is within the bound');
        assert.notEqual(open[0]?.state, 'waiting', 'the oldest proceeds');
      }
      for (const { all, budget } of [one, other]) {
        for (const reservation of all) reservation.release();
        assertEmpty(budget);
      }
    }),
    { numRuns: 1_000 },
  );
});

t.test('waiting for memory ends with the reservation', async (t) => {
  const budget = createMemoryBudget(capacity, 1_000_000);
  const kindOf = (wait: Promise<void>) => wait.catch((error: unknown) => (error as ApiError).kind);
  const oldest = budget.reserve('a');
  const holding = budget.reserve('a');
  t.ok(holding.hold(capacity));
  for (const [end, kind] of [
    ['release', 'malformedRequest'],
    ['hold', 'overloaded'],
  ] as const) {
    const waiting = budget.reserve('b');
    const granted = waiting.wait(capacity);
    t.equal(waiting.state, 'waiting');
    await t.rejects(waiting.wait(1), { message: 'The reservation waits already' });
    waiting[end](capacity);
    t.equal(await kindOf(granted), kind);
    t.equal(await kindOf(waiting.wait(1)), kind, 'and cannot begin again');
  }
  holding.release();
  oldest.release();
  assertEmpty(budget);
});

t.test('a client that leaves while its next page is read leaves no memory reserved', async (t) => {
  let onNextPage: ((release: () => void) => void) | undefined;
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      list: async (subject, page) => {
        if (page.after !== undefined && onNextPage !== undefined) await new Promise<void>(onNextPage);
        return plants.list(subject, page);
      },
    },
  }));
  // No timeout takes effect in this test.
  const limits = { memoryBudget: 500_000, requestTimeout: 600_000 };
  const { open, openBoth, authorized, fill } = await startListening(t, { wrap, limits });
  // The first page is short, the others are long.
  const count = 30;
  await fill(count, (i) => 'x'.repeat(i === 0 ? 1_000 : 260_000));
  const list = listRequest(authorized);
  for (let i = 0; i < 8; i++) {
    const reading = new Promise<() => void>((resolve) => (onNextPage = resolve));
    const { connection: leaving, served } = await openBoth();
    leaving.send(list);
    const release = await reading;
    const closed = new Promise((resolve) => served.once('close', resolve));
    leaving.reset();
    await closed;
    release();
    await setImmediate();
  }
  onNextPage = undefined;
  const oldest = await open();
  oldest.send(list);
  await once(oldest.socket, 'data');
  oldest.socket.pause();
  const other = await open();
  other.send(list);
  t.match(await other.receive('GET', '/plants'), { status: 200, json: { length: count } });
});

t.test('a request whose client leaves while its body waits for memory ends once', async (t) => {
  const { lines, logger } = captureLog();
  // No timeout takes effect in this test.
  const limits = { memoryBudget: 1_000_000, bodyLimit: 200_000, requestTimeout: 600_000 };
  const { open, openBoth, authorized } = await startListening(t, { limits, logger });
  const head = `${createHead(authorized)}Content-Length: 150000\r\n`;
  const other = await open();
  /** Sends a part of a body, and resolves when the server has processed it. */
  const send = async (requestId: string, length: number) => {
    const { connection, served } = await openBoth();
    connection.send(`${head}X-Request-Id: ${requestId}\r\n\r\n${'x'.repeat(length)}`);
    await repeatUntil(() => served.bytesRead >= length);
    other.send(listRequest(authorized));
    await other.receive('GET', '/plants');
    return connection;
  };
  await send('oldest', 1);
  for (let i = 0; i < 3; i++) await send(`slow-${i}`, 140_000);
  const leaving = await send('leaving', 70_000);
  leaving.reset();
  const linesOf = (id: string) => lines.filter(({ requestId }) => requestId === id);
  await repeatUntil(() => linesOf('leaving').length > 0);
  await setImmediate();
  t.strictSame(
    linesOf('leaving').map(({ level, msg }) => ({ level, msg })),
    [{ level: 30, msg: 'request broken off' }],
  );
});
