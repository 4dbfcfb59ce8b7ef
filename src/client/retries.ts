// Sends a request until its outcome is known: again after a lost connection, 429 or 503, as often as is allowed.
import { ApiError, ConnectionError, kindOf, type Answer, type ErrorKind } from './errors.js';

/** Time, for the waits between attempts. */
export interface Clock {
  /** The time in ms since the epoch. */
  now(): number;
  /** Resolves after a number of ms; rejects with the signal's reason as soon as that is aborted. */
  sleep(time: number, signal?: AbortSignal): Promise<void>;
}

/** How one attempt ended. `lost` is the reason why there is no answer. */
export type Outcome<Value> = { value: Value } | { answer: Answer } | { lost: unknown; requestId: string };

/** A call that may take several attempts. */
export interface Call<Value> {
  /** Sends the request once; `attempts` counts from 1. What it rejects with ends the call. */
  attempt: (attempts: number) => Promise<Outcome<Value>>;
  /** Whether the request may change something. */
  writes: boolean;
  /** The error by which a repeated write learns that the one before took effect, and the call's value then. */
  done?: { kind: ErrorKind; value: Value } | undefined;
  signal?: AbortSignal | undefined;
}

/** The wait before the first retry, in ms; it doubles with every further one. */
const firstWait = 100;

/** How much patience a caller has. */
export interface Patience {
  /** How often the request may be sent again. */
  retries: number;
  /** The longest wait before that, in ms; a Retry-After beyond it ends the call. */
  maxWait: number;
}

/**
 * Carries out a call.
 * @throws ApiError, ConnectionError, the signal's reason, and whatever the attempt rejects with.
 */
export async function withRetries<Value>(
  { attempt, writes, done, signal }: Call<Value>,
  { retries, maxWait }: Patience,
  clock: Clock,
): Promise<Value> {
  let mayHaveTakenEffect = false;
  for (let attempts = 1; ; attempts++) {
    const outcome = await attempt(attempts);
    if ('value' in outcome) return outcome.value;
    const answer = 'answer' in outcome ? outcome.answer : undefined;
    // It was an earlier attempt of this very call that took effect, as far as anybody can tell.
    if (done !== undefined && mayHaveTakenEffect && done.kind === kindOf(answer?.error?.error))
      return done.value;
    if (writes) mayHaveTakenEffect ||= answer === undefined || leavesOpen(answer);

    const backoff = firstWait * 2 ** (attempts - 1) * (0.5 + Math.random() / 2);
    const retryAfter = answer?.retryAfter ?? 0;
    const again = answer === undefined || answer.status === 429 || answer.status === 503;
    if (again && attempts <= retries && retryAfter <= maxWait) {
      await clock.sleep(retryAfter + Math.min(backoff, maxWait), signal);
      continue;
    }
    const call = { attempts, mayHaveTakenEffect };
    if ('answer' in outcome) throw new ApiError(call, outcome.answer);
    throw new ConnectionError({ ...call, requestId: outcome.requestId }, outcome.lost);
  }
}

/** Whether a write with this answer may have taken effect: it failed on the way, and nothing says that it has not. */
function leavesOpen({ status, error }: Answer): boolean {
  const kind = kindOf(error?.error);
  if (kind === 'unavailable' || kind === 'overloaded') return false;
  return status >= 500 || (status >= 200 && status < 300);
}

/** Real time. */
export const systemClock: Clock = {
  now: Date.now,
  sleep: (time, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const stop = () => {
        clearTimeout(timer);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason is the caller's own
        reject(signal?.reason);
      };
      const end = () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      };
      // A timer ends at once when it cannot count that far.
      const timer = setTimeout(end, Math.min(time, 2 ** 31 - 1));
      signal?.addEventListener('abort', stop, { once: true });
    }),
};
