// Lets costly steps of responses take turns, so that many of them do not delay all other requests.
import { SubjectQueue } from '../../base/subject-queue.js';
import { isAnonymous } from './account.js';

/** How many steps run at the same time. While one waits for the database, others compute. */
const together = 4;
/** How long a step counts, in ms: one that waits longer computes nothing, and must not stop the others. */
const countedTime = 100;

interface Waiting {
  readonly subject: string;
  readonly start: () => void;
}
/** No subject is empty. */
const allNetworks = '';

/** Runs steps a few at a time. */
export interface StreamTurns {
  /**
   * Runs a step when it is its turn: accounts (see accountOf) take turns, and the steps of one run in the order of the
   * calls. All networks together have the turns of one subject, so that many of them do not delay known callers.
   */
  take<T>(account: string, step: () => Promise<T>): Promise<T>;
}

/** Creates turns. After each step, an iteration of the event loop passes, in which other requests proceed. */
export function createStreamTurns(): StreamTurns {
  const waiting = new SubjectQueue<Waiting>();
  const anonymous = new SubjectQueue<Waiting>();
  let running = 0;
  const startNext = () => {
    const next = running < together ? waiting.take() : undefined;
    if (next === undefined) return;
    running++;
    next.start();
  };
  const wait = (subject: string) =>
    new Promise<void>((start) => {
      if (isAnonymous(subject)) {
        anonymous.add({ subject, start });
        waiting.add({ subject: allNetworks, start: () => anonymous.take()?.start() });
      } else waiting.add({ subject, start });
      startNext();
    });
  return {
    async take(account, step) {
      await wait(account);
      let counts = true;
      const end = () => {
        if (!counts) return;
        counts = false;
        setImmediate(() => {
          running--;
          startNext();
        });
      };
      const timer = setTimeout(end, countedTime);
      try {
        return await step();
      } finally {
        clearTimeout(timer);
        end();
      }
    },
  };
}
