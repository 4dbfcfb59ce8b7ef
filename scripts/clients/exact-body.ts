// Writes the body of createPlant with all digits of its id, which JSON.stringify cannot before Node.js 22.
export function exactBody(body: unknown): string {
  const { id, ...rest } = body as { id: bigint; name: string; tag?: string };
  return `{"id":${id},${JSON.stringify(rest).slice(1)}`;
}
