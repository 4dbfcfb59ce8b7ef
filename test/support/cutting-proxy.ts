// A TCP proxy before the service that loses connections on purpose: real sockets, and the service has really acted.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

/**
 * What becomes of a request: it and its answer pass; it is lost before the service sees it; its answer is lost when
 * the service has given it; half of the answer's first bytes are lost; its answer is held back for ever.
 */
export type Fate = 'pass' | 'lose request' | 'lose answer' | 'cut answer' | 'hold answer';

/** The proxy of a test. */
export interface CuttingProxy {
  readonly url: string;
  /** The fates of the requests to come; after them all pass. */
  readonly fates: Fate[];
}

/** Starts a proxy that ends with the test. Requests must come one after the other, without pipelining. */
export async function startCuttingProxy(t: Test, port: number): Promise<CuttingProxy> {
  const fates: Fate[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const service = connect(port, '127.0.0.1');
    let fate: Fate | undefined;
    let answering = false;
    for (const socket of [client, service]) {
      sockets.add(socket);
      // A connection that is cut reports it as an error; the closing is what counts.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        service.destroy();
      });
    }
    client.on('data', (bytes) => {
      // A request may come in pieces, and so may the answer before it.
      if (answering) fate = undefined;
      answering = false;
      fate ??= fates.shift() ?? 'pass';
      if (fate === 'lose request') client.destroy();
      else service.write(bytes);
    });
    service.on('data', (bytes) => {
      const first = !answering;
      answering = true;
      if (fate === 'pass') client.write(bytes);
      else if (fate === 'cut answer' && first) client.end(bytes.subarray(0, bytes.length / 2));
      else if (fate === 'lose answer') client.destroy();
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
