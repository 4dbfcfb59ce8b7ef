// Lets JSON.stringify write the id as a string, whose quotes are removed before the body is sent.
Object.assign(BigInt.prototype, {
  toJSON(this: bigint) {
    return String(this);
  },
});

export const exactFetch: typeof fetch = (input, init) => {
  if (typeof init?.body !== 'string') return fetch(input, init);
  return fetch(input, { ...init, body: init.body.replace(/^{"id":"(-?\d+)"/, '{"id":$1') });
};
