// Lets new connections in while the event loop has much to do.

/** How many connections may be accepted after each part of long work. An iteration without one takes microseconds. */
const connections = 32;

/**
 * Calls a function when a number of iterations of the event loop have passed. Each accepts at most one connection.
 *
 * - Promise: a new connection does not wait until long work for each earlier one is done.
 * - Test: test/http/admission/limits.test.ts, "a short list on a new connection does not wait for long ones on earlier
 *   connections".
 * - Node: src/unix/stream.c of libuv, uv__server_io.
 */
export function afterAccepting(action: () => void, left = connections): void {
  setImmediate(() => {
    if (left > 1) afterAccepting(action, left - 1);
    else action();
  });
}
