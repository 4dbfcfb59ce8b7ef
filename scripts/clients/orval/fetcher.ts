// Sends each request of orval's client to the service, with a token.
export async function fetcher<T>(path: string, { headers, ...init }: RequestInit): Promise<T> {
  const response = await fetch(process.env['BASE_URL'] + path, {
    ...init,
    headers: { authorization: `Bearer ${process.env['TOKEN']}`, ...(headers as Record<string, string>) },
  });
  const text = await response.text();
  return {
    data: text === '' ? undefined : JSON.parse(text),
    status: response.status,
    headers: response.headers,
  } as T;
}
