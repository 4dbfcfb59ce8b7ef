// The states of a connection: one that has failed sends its pending responses, one error, and nothing more, and starts
// nothing that arrives later.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { injectFaults, startListening } from '../support/service.js';

t.test('a failed connection sends its pending responses, one error, and closes', async (t) => {
  const creates: (() => void)[] = [];
  let onCreate: () => void = () => undefined;
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      create: async (...all) => {
        await new Promise<void>((resolve) => {
          creates.push(resolve);
          onCreate();
        });
        return plants.create(...all);
      },
    },
  }));
  const { app, open, authorized, call, token } = await startListening(t, { wrap });
  const create = (id: number) => {
    const body = `{"id":${id},"name":"a"}`;
    const head = `POST /plants HTTP/1.1\r\n${authorized}Content-Type: application/json\r\n`;
    return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
  };
  const list = `GET /plants HTTP/1.1\r\n${authorized}\r\n`;
  // What fails the connection, with and without a request of its own.
  for (const [index, last] of [
    'nonsense\r\n\r\n',
    `${create(99)
      .slice(0, -1)
      .replace(/Content-Length: \d+/, 'Transfer-Encoding: chunked')}\r\n`,
  ].entries()) {
    const started = new Promise<void>((resolve) => (onCreate = resolve));
    const failed = once(app.server, 'clientError') as Promise<[Error, Socket]>;
    const connection = await open();
    connection.send(create(index) + list + last);
    await started;
    await failed;
    connection.send(list + create(50) + 'nonsense\r\n\r\n');
    creates.pop()?.();
    t.equal((await connection.answer('POST', '/plants'))?.status, 200);
    t.equal((await connection.answer('GET', '/plants'))?.status, 200);
    t.match(await connection.answer(), { status: 400, headers: { connection: 'close' } });
    t.equal(await connection.rest(), '');
  }
  t.strictSame(creates, [], 'nothing starts after the failure');
  t.equal((await call('GET', '/plants', { token })).text, '[{"name":"a"},{"name":"a"}]');
});
