// Combines all calls within one iteration of the event loop into one action.

/** Returns a function that makes an action run at the end of this iteration of the event loop, once for all of its calls. */
export function oncePerIteration(action: () => void): () => void {
  let isDue = false;
  const run = () => {
    isDue = false;
    action();
  };
  return () => {
    if (isDue) return;
    isDue = true;
    setImmediate(run);
  };
}
