// Writes the body of createPlant with all digits of its id, which JSON.stringify cannot before Node.js 22.
interface Body {
  id: bigint;
  name: string;
  tag?: string;
}

export function exactBody(body: unknown): string {
  const { id, ...rest } = body as Body;
  return `{"id":${id},${JSON.stringify(rest).slice(1)}`;
}
