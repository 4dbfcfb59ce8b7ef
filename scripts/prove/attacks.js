// The attacking process of prove:soak: all attacks at once, each as what one connection sends.
//
//   node scripts/prove/attacks.js PORT TOKEN...
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

/** The pause before a closed connection is replaced, in ms. */
const rest = 50;
const [port, ...tokens] = process.argv.slice(2);

/**
 * How many concurrent connections each attack keeps, and what it does with a new one. Together they saturate a core.
 * @type {[connections: number, attack: (socket: import('node:net').Socket, token: string) => unknown][]}
 */
const attacks = [
  // Requests without a token, with invented tokens, and with invented JWTs.
  [100, (socket) => repeat(socket, () => list())],
  [50, (socket) => repeat(socket, () => list(`pst_${random(43)}`))],
  [20, (socket) => repeat(socket, () => list(`${random(40)}.${random(80)}.${random(40)}`))],
  // Slow bodies and headers.
  [40, (socket, token) => drip(socket, `${create(token)}Content-Length: 1048576\r\n\r\n{`, ' ')],
  [
    20,
    (socket, token) =>
      drip(socket, `${create(token)}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`, '1\r\n \r\n'),
  ],
  [40, (socket) => drip(socket, 'GET /plants HTTP/1.1\r\nHost: x\r\n', 'a:b\r\n')],
  // Stalled readers.
  [60, (socket, token) => socket.pause().write(list(token).repeat(4))],
  // Deep bodies, and bodies of many values.
  [
    8,
    (socket, token) => post(socket, token, `{"id":1.0,"name":${'['.repeat(524_000)}${']'.repeat(524_000)}}`),
  ],
  [8, (socket, token) => post(socket, token, `[${'{},'.repeat(349_000)}{}]`)],
  // Header floods.
  [20, (socket) => socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\n${'a:b\r\n'.repeat(20_000)}\r\n`)],
  // Upgrades, with a request in a body.
  [
    10,
    (socket, token) =>
      socket.write(
        `GET /plants HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n${create(token)}Content-Length: 40\r\n\r\nDELETE /plants/1 HTTP/1.1\r\nHost: x\r\n\r\n`,
      ),
  ],
  // What is not HTTP, such as TLS.
  [10, (socket) => socket.write(randomBytes(500))],
  // Idle connections.
  [300, () => undefined],
];

for (const [connections, attack] of attacks) {
  for (let i = 0; i < connections; i++) {
    const token = tokens[i % tokens.length] ?? '';
    const again = () => {
      // Without reading, a connection that the server has closed would stay open.
      const socket = connect(Number(port), '127.0.0.1').resume();
      socket.on('error', () => undefined).on('connect', () => attack(socket, token));
      socket.on('close', () => setTimeout(again, rest));
    };
    setTimeout(again, Math.random() * 1_000);
  }
}

/**
 * Sends a request, and another one after each response.
 * @param {import('node:net').Socket} socket
 * @param {() => string} request
 */
function repeat(socket, request) {
  socket.on('data', () => socket.write(request())).write(request());
}

/** Sends text, and more every second. @param {import('node:net').Socket} socket @param {string} text @param {string} more */
function drip(socket, text, more) {
  socket.write(text);
  const timer = setInterval(() => socket.write(more), 1_000);
  socket.once('close', () => clearInterval(timer));
}

/** @param {import('node:net').Socket} socket @param {string} token @param {string} body */
function post(socket, token, body) {
  socket.end(`${create(token)}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

/** Returns the request for a list. @param {string} [token] */
function list(token) {
  const credentials = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  return `GET /plants HTTP/1.1\r\nHost: x\r\n${credentials}\r\n`;
}

/** Returns the head of a create, without Content-Length. @param {string} token */
function create(token) {
  return `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
}

/** @param {number} length */
function random(length) {
  return randomBytes(length).toString('base64url').slice(0, length);
}
