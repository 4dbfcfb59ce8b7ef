// A program for any runtime: calls of the client while connections are lost, and what became of each.
import { createClient, ApiError, ConnectionError } from '../../dist/index.js';

/** Where the program finds the service, behind a proxy that loses connections, and the test that tells the proxy when. */
export interface Place {
  service: string;
  test: string;
  token: string;
}

/** A call, what the client said of it, and whether its plant was stored before it and afterwards. */
export interface Report {
  call: 'create' | 'delete';
  /** What happened to its first request. */
  fate: string;
  retries: number;
  /** The kind of error; undefined after a success, or without a response. */
  kind?: string | undefined;
  /** Whether the call failed. */
  failed: boolean;
  mayHaveTakenEffect: boolean;
  before: boolean;
  after: boolean;
}

/** Creates and deletes a plant for each fate of the request, without retries of the client and with some. */
export async function callWithLosses({ service, test, token }: Place): Promise<Report[]> {
  const reports: Report[] = [];
  const ask = async (path: string): Promise<unknown> => (await fetch(`${test}/${path}`)).json();
  let id = 0;
  for (const retries of [0, 2])
    for (const fate of (await ask('fates')) as string[]) {
      const client = createClient({ baseUrl: service, token, retries });
      const plant = { id: ++id, name: `${id}` };
      const calls = { create: () => client.createPlant(plant), delete: () => client.deletePlant(plant.id) };
      for (const call of ['create', 'delete', 'delete', 'create', 'create', 'delete'] as const) {
        // So that there is a connection to reuse.
        await client.listPlants({ retries: 5 });
        const before = Boolean(await ask(`next/${fate}/${plant.name}`));
        const outcome = await calls[call]().then(() => undefined, toError);
        const after = Boolean(await ask(`next/pass/${plant.name}`));
        const kind = outcome instanceof ApiError ? outcome.kind : undefined;
        const { mayHaveTakenEffect = false } = outcome ?? {};
        reports.push({
          call,
          fate,
          retries,
          kind,
          failed: outcome !== undefined,
          mayHaveTakenEffect,
          before,
          after,
        });
      }
    }
  // The test keeps the headers of this request.
  await createClient({ baseUrl: test, token, headers: { 'X-Mine': 'a' } }).listPlants({
    headers: { 'x-yours': 'b' },
  });
  return reports;
}

function toError(error: unknown): ApiError | ConnectionError {
  if (error instanceof ApiError || error instanceof ConnectionError) return error;
  throw error;
}
