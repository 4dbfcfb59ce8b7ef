// Int64 becomes bigint; fetcher.ts adds the address and the token.
export default {
  plants: {
    input: process.env.CONTRACT,
    output: {
      target: 'client/plants.ts',
      client: 'fetch',
      override: { useBigInt: true, mutator: { path: './fetcher.ts', name: 'fetcher' } },
    },
  },
};
