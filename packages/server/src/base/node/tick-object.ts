// Keeps process.nextTick(), which each request calls many times, equally fast in all processes.
import { executionAsyncResource } from 'node:async_hooks';

/** One of the objects in which Node.js keeps the calls that wait. */
let tickObject: object | undefined;

/**
 * Keeps one of the objects that process.nextTick() makes. V8 forgets their hidden class when a garbage collection finds
 * none of them, and the process would make each further one in a slow, generic way.
 *
 * - Promise: a process is not slower than another one by chance.
 * - Test: test/process/resources.test.ts, "a garbage collection does not make process.nextTick() slow".
 * - Node: lib/internal/process/task_queues.js, nextTick.
 */
export function keepTickObject(): void {
  process.nextTick(() => {
    tickObject ??= executionAsyncResource();
  });
}
