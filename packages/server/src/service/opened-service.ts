// Opens a service, checks whether it can serve, and closes it, each within a time limit.
import type { AnyHandlers } from '../contract/handlers.js';
import type { AnyOpened, Service, ServiceContext } from './definition.js';
import { resultOf } from '../base/errors.js';
import { within } from '../base/time-limit.js';

/** Maximum time for a check of the service, in ms: less than the admin listener waits. */
const checkTime = 1_500;

/** A service could not be opened. The message is one line, for the operator. */
export class OpenError extends Error {
  override readonly name = 'OpenError';

  constructor(message: string, cause?: unknown) {
    super(`the service could not be opened: ${message}`, { cause });
  }
}

/** Options of openService. */
export interface OpeningOptions extends Omit<ServiceContext, 'signal'> {
  /** Aborts when the process is to end. */
  readonly interruption?: AbortSignal | undefined;
  /** Maximum time that it may then still take to open, and to close, in ms. */
  readonly patience: number;
}

const late = Symbol('late');

declare module 'fastify' {
  interface FastifyInstance {
    /** Resolves if what the service has opened can serve; rejects with the reason otherwise. */
    checkService(): Promise<void>;
  }
}

/**
 * Opens a service. When it is interrupted, its signal aborts, and what it still opens is closed.
 * @throws OpenError when it cannot be opened.
 */
export async function openService(
  { open }: Pick<Service, 'open'>,
  { interruption, patience, ...given }: OpeningOptions,
): Promise<OpenedService> {
  const end = new AbortController();
  const interrupted = new Promise<typeof late>((resolve) => {
    interruption?.addEventListener('abort', () => {
      resolve(late);
    });
  });
  // `open` may throw, or return a value that is not a promise.
  const opening = (async () => open({ ...given, signal: end.signal }))();
  try {
    const opened = await Promise.race([opening, interrupted]);
    if (opened !== late) return manage(opened, given.log, end);
  } catch (error) {
    end.abort();
    throw new OpenError(textOfThrown(error), error);
  }
  end.abort();
  const closed = opening.then((opened) => opened.close?.()).catch(() => undefined);
  await within(closed, patience, undefined);
  throw new OpenError('the process ends');
}

/** A service that is open. */
export type OpenedService = ReturnType<typeof manage>;

/** @param end - Aborts the signal of the service. */
function manage(opened: AnyOpened, log: ServiceContext['log'], end: AbortController) {
  /** The number of running handlers. A handler goes on when its client has left. */
  let running = 0;
  let idle: () => void = () => undefined;
  const counted = (handle: Handle) => async (request: never) => {
    running++;
    try {
      return await handle(request);
    } finally {
      if (--running === 0) idle();
    }
  };
  const { around } = opened;
  const wrapped =
    around === undefined
      ? opened.handlers
      : mapped(
          opened.handlers,
          (handle, name) => (request) => around(name, async () => resultOf(await handle(request))),
        );
  return {
    // Only a service that must be closed needs to wait for its handlers.
    handlers: opened.close === undefined ? wrapped : mapped(wrapped, counted),
    verifiers: opened.verifiers ?? {},
    credentialSchemes: opened.credentialSchemes ?? [],

    /**
     * Asks the service whether it can serve. A check that never settles does not prevent later ones.
     * @throws Error with the reason when it cannot, or does not say in time.
     */
    async check(): Promise<void> {
      if (opened.check === undefined) return;
      const giveUp = new AbortController();
      try {
        if ((await within(Promise.resolve(opened.check(giveUp.signal)), checkTime, late)) !== late) return;
      } catch (error) {
        throw new Error(`the service: ${textOfThrown(error)}`, { cause: error });
      } finally {
        giveUp.abort();
      }
      throw new Error(`the service: no response within ${checkTime} ms`);
    },

    /**
     * Closes the service when no handler runs any more. Never rejects.
     * @param hurry - Resolves when handlers that still run are not waited for.
     */
    async close(hurry: Promise<void>): Promise<void> {
      if (running > 0) await Promise.race([new Promise<void>((resolve) => (idle = resolve)), hurry]);
      end.abort();
      try {
        await opened.close?.();
      } catch (error) {
        log.error({ err: error }, 'the service did not close');
      }
    },
  };
}

type Handle = AnyHandlers[string];

function mapped(handlers: AnyHandlers, map: (handle: Handle, name: string) => Handle): AnyHandlers {
  return Object.fromEntries(Object.entries(handlers).map(([name, handle]) => [name, map(handle, name)]));
}

/** Describes a thrown value in one line. */
function textOfThrown(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // An AggregateError, of a connection that was tried at several addresses, has no message of its own.
  const { message, name } = error;
  const text =
    message === '' && error instanceof AggregateError ? error.errors.map(textOfThrown).join('; ') : message;
  return text === '' ? name : text.trim().replaceAll(/\s*\n\s*/g, '; ');
}
