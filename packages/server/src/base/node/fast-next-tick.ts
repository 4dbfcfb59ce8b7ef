// Keeps process.nextTick() fast: every request calls it several times. No test can show it, only a measurement: "node
// scripts/bench/cases.js next-tick".
import { executionAsyncResource } from 'node:async_hooks';

/**
 * One of the objects that process.nextTick() makes (lib/internal/process/task_queues.js, nextTick). V8 forgets their
 * hidden class when a garbage collection finds none of them, as it does while the service is idle, and from then on
 * makes each one by a generic, much slower way. So one stays alive as long as the process.
 */
export const tickObject: { kept?: object } = {};

process.nextTick(() => {
  tickObject.kept = executionAsyncResource();
});
