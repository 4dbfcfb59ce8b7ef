// What the programs of this folder share: "create ID NAME", "list [ETAG]" or "delete ID", whose outcome is printed.
import './exact-ids.ts';

/** What a client returns: the body of an error is in a field of its own. */
interface Outcome {
  status?: number | undefined;
  data?: unknown;
  error?: unknown;
}

export interface Client {
  create(body: { id: bigint; name: string }): Promise<Outcome>;
  list(ifNoneMatch: string): Promise<Outcome>;
  remove(id: bigint): Promise<Outcome>;
}

function text({ status, data, error }: Outcome) {
  if (Array.isArray(data)) return data.map(({ name }: { name: string }) => name).join();
  const failed = error !== undefined && error !== null;
  const body = (failed ? error : data) as { name?: string; error?: number } | undefined;
  return body?.name ?? `${failed ? 'error ' : ''}${status} ${body?.error ?? JSON.stringify(body)}`;
}

/** The outcome of a client that returns the response beside the body. */
export function outcome(result: Outcome & { response?: Response }): Outcome {
  return { ...result, status: result.response?.status };
}

export async function run({ create, list, remove }: Client) {
  const [step, value = '', name = ''] = process.argv.slice(2);
  const call = {
    create: () => create({ id: BigInt(value), name }),
    list: () => list(value),
    delete: () => remove(BigInt(value)),
  }[step!]!;
  console.log(text(await call()));
}

export const { BASE_URL = '', TOKEN = '' } = process.env;
export const authorization = `Bearer ${TOKEN}`;
