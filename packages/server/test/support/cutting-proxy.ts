// A TCP proxy that breaks connections to the service on purpose, with real sockets, after the service has really acted.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

/**
 * What happens to a request: it and its response pass; it is lost before the service sees it, or half of its first bytes;
 * its response is lost after the service has sent it, or half of its first bytes, or the last of them; its response is
 * withheld forever.
 */
export type Fate =
  'pass' | 'lose request' | 'cut request' | 'lose response' | 'cut response' | 'cut body' | 'hold response';

/** The proxy of a test. */
export interface CuttingProxy {
  readonly url: string;
  /** What happens to the next requests; all later ones pass. */
  readonly fates: Fate[];
}

/** Starts a proxy that ends with the test. Requests must not be pipelined. */
export async function startCuttingProxy(t: Test, port: number): Promise<CuttingProxy> {
  const fates: Fate[] = [];
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const service = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [client, service],
      [service, client],
    ] as const) {
      sockets.add(socket);
      // A broken connection causes an error; only its closing matters.
      socket.on('error', () => undefined).on('close', () => other.destroy());
    }
    let fate: Fate | undefined;
    let responding = false;
    client.on('data', (bytes) => {
      // A request may arrive in several chunks, and so may the response before it.
      if (responding) fate = undefined;
      responding = false;
      fate ??= fates.shift() ?? 'pass';
      if (fate === 'lose request') client.destroy();
      else if (fate === 'cut request')
        service.end(bytes.subarray(0, bytes.length / 2), () => client.destroy());
      else service.write(bytes);
    });
    service.on('data', (bytes) => {
      const first = !responding;
      responding = true;
      if (fate === 'pass') client.write(bytes);
      else if (fate === 'cut response' && first) client.end(bytes.subarray(0, bytes.length / 2));
      else if (fate === 'cut body' && first) client.end(bytes.subarray(0, -1));
      else if (fate === 'lose response') client.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, fates };
}
