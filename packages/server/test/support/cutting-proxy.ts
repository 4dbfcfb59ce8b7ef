// A TCP proxy that breaks connections to the service on purpose, with real sockets, after the service has really acted.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

/**
 * What happens to a request: it and its response pass; it is lost before the service sees it; its response is lost
 * after the service has sent it; half of the first bytes of its response are lost; its response is withheld forever.
 */
export type Fate = 'pass' | 'lose request' | 'lose response' | 'cut response' | 'hold response';

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
  const server = createServer((client) => {
    const service = connect(port, '127.0.0.1');
    let fate: Fate | undefined;
    let responding = false;
    for (const socket of [client, service]) {
      sockets.add(socket);
      // A broken connection causes an error; only its closing matters.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        service.destroy();
      });
    }
    client.on('data', (bytes) => {
      // A request may arrive in several chunks, and so may the response before it.
      if (responding) fate = undefined;
      responding = false;
      fate ??= fates.shift() ?? 'pass';
      if (fate === 'lose request') client.destroy();
      else service.write(bytes);
    });
    service.on('data', (bytes) => {
      const first = !responding;
      responding = true;
      if (fate === 'pass') client.write(bytes);
      else if (fate === 'cut response' && first) client.end(bytes.subarray(0, bytes.length / 2));
      else if (fate === 'lose response') client.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, fates };
}
