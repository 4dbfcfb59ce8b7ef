// Retries requests after lost connections and the statuses of passing failures, until the outcome is known or the retries are used up.
import { ApiError, ConnectionError, kindOf, type Answer, type ErrorKind, type Fault } from './errors.js';

/** The clock for the waits between attempts. */
export interface Clock {
  /** Returns the time in ms since the epoch. */
  now(): number;
  /** Resolves after `time` ms; rejects with the signal's reason when the signal is aborted. */
  sleep(time: number, signal?: AbortSignal): Promise<void>;
}

/**
 * The end of one attempt. `fault` is what is wrong with a response whose status means success; `lost`, the reason for a
 * missing response; `sent`, whether the request may have reached the service.
 */
export type Outcome<Value> =
  | { answer: Answer; value: Value }
  | { answer: Answer; fault?: Fault }
  | { lost: unknown; requestId: string; sent: boolean };

/** A call that may take several attempts. */
export interface RepeatedCall<Value> {
  /** Sends the request once; `attempts` counts from 1. A rejection ends the call. */
  attempt: (attempts: number) => Promise<Outcome<Value>>;
  /** Whether the request may change something. */
  writes: boolean;
  /** Whether an attempt may send its request more than once. */
  sendsAgain: boolean;
  /** The error that shows a retry that an earlier attempt took effect, and the call's value in that case. */
  done?: { kind: ErrorKind; value: Value } | undefined;
  signal?: AbortSignal | undefined;
  /** Maximum number of retries. */
  retries: number;
  /** Maximum wait before a retry, in ms; a longer Retry-After ends the call. */
  maxWait: number;
}

/** The statuses of failures that may pass; 502 and 504 are of proxies. */
const passing: readonly number[] = [429, 500, 502, 503, 504];

/** The wait before the first retry, in ms; it doubles with each further retry. */
const firstWait = 100;

/**
 * Performs a call with retries.
 * @throws ApiError, ConnectionError, the signal's reason, or the attempt's own error.
 */
export async function withRetries<Value>(
  { attempt, writes, sendsAgain, done, signal, retries, maxWait }: RepeatedCall<Value>,
  clock: Clock,
): Promise<Value> {
  /** Whether an earlier attempt may have taken effect, as far as its own outcome says. */
  let isOpen = false;
  let mayHaveTakenEffect = false;
  for (let attempts = 1; ; attempts++) {
    const outcome = await attempt(attempts);
    if ('value' in outcome) return outcome.value;
    const answer = 'answer' in outcome ? outcome.answer : undefined;
    const kind = kindOf(answer?.error?.error);
    // Most likely, an earlier attempt of this call took effect.
    if (done !== undefined && isOpen && done.kind === kind) return done.value;
    if (writes) {
      isOpen ||= 'answer' in outcome ? leavesOpen(outcome.answer) : outcome.sent;
      mayHaveTakenEffect ||= isOpen || (sendsAgain && answer !== undefined && !isFinal(answer, done?.kind));
    }

    const backoff = firstWait * 2 ** (attempts - 1) * (0.5 + Math.random() / 2);
    const retryAfter = answer?.retryAfter ?? 0;
    const again = answer === undefined || passing.includes(answer.status);
    if (again && attempts <= retries && retryAfter <= maxWait) {
      await clock.sleep(retryAfter + Math.min(backoff, maxWait), signal);
      continue;
    }
    const call = { attempts, mayHaveTakenEffect };
    if ('answer' in outcome) throw new ApiError(call, outcome.answer, outcome.fault?.message);
    throw new ConnectionError({ ...call, requestId: outcome.requestId }, outcome.lost);
  }
}

/**
 * Whether a response to a write that was sent more than once also says that the requests before it had no effect: it
 * refuses the request itself. What may pass, or what the write itself causes, says that only of the last one.
 */
function isFinal({ status, error }: Answer, done: ErrorKind | undefined): boolean {
  return error !== undefined && kindOf(error.error) !== done && !passing.includes(status);
}

/** Whether a write with this response may have taken effect, because the error does not rule it out. */
function leavesOpen({ status, error }: Answer): boolean {
  const kind = kindOf(error?.error);
  if (kind === 'unavailable' || kind === 'overloaded') return false;
  return status >= 500 || (status >= 200 && status < 300);
}

/** The system clock. */
export const systemClock: Clock = {
  now: Date.now,
  sleep: async (time, signal) => {
    if (signal?.aborted !== true) {
      await new Promise<void>((resolve) => {
        const end = () => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', end);
          resolve();
        };
        // A longer timer would fire at once.
        const timer = setTimeout(end, Math.min(time, 2 ** 31 - 1));
        signal?.addEventListener('abort', end, { once: true });
      });
    }
    signal?.throwIfAborted();
  },
};
