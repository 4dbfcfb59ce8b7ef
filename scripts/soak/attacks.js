// The attacks of soak:hostile, each as what one connection sends.

/**
 * The attacks: how many concurrent connections each keeps, and the pause before it replaces a closed one, in ms.
 * Together they saturate a core. `attack` gets a token of another subject than the good one.
 * @typedef {object} Attack
 * @property {number} connections
 * @property {number} pause
 * @property {(socket: import('node:net').Socket, token: string) => void} attack
 */
/** @type {Record<string, Attack>} */
export const attacks = {
  'requests without a token': {
    connections: 100,
    pause: 20,
    attack: (socket) => repeat(socket, 'GET /plants HTTP/1.1\r\nHost: x\r\n\r\n'),
  },
  'invented tokens': {
    connections: 50,
    pause: 20,
    attack: (socket) =>
      repeat(
        socket,
        () => `GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer pst_${random(43)}\r\n\r\n`,
      ),
  },
  'invented JWTs': {
    connections: 20,
    pause: 20,
    attack: (socket) =>
      repeat(
        socket,
        () =>
          `GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${random(40)}.${random(80)}.${random(40)}\r\n\r\n`,
      ),
  },
  'slow bodies': {
    connections: 40,
    pause: 100,
    attack: (socket, token) => {
      socket.write(`${create(token)}Content-Length: 1048576\r\n\r\n{`);
      drip(socket, ' ', 1_000);
    },
  },
  'slow chunked bodies': {
    connections: 20,
    pause: 100,
    attack: (socket, token) => {
      socket.write(`${create(token)}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`);
      drip(socket, '1\r\n \r\n', 1_000);
    },
  },
  'stalled readers': {
    connections: 60,
    pause: 100,
    attack: (socket, token) => {
      socket.pause();
      socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`.repeat(4));
    },
  },
  'deep bodies': {
    connections: 8,
    pause: 50,
    attack: (socket, token) =>
      post(socket, token, `{"id":1.0,"name":${'['.repeat(524_000)}${']'.repeat(524_000)}}`),
  },
  'bodies of many values': {
    connections: 8,
    pause: 50,
    attack: (socket, token) => post(socket, token, `[${'{},'.repeat(349_000)}{}]`),
  },
  'header floods': {
    connections: 20,
    pause: 50,
    attack: (socket) => socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\n${'a:b\r\n'.repeat(20_000)}\r\n`),
  },
  'slow headers': {
    connections: 40,
    pause: 100,
    attack: (socket) => {
      socket.write('GET /plants HTTP/1.1\r\nHost: x\r\n');
      drip(socket, 'a:b\r\n', 1_000);
    },
  },
  upgrades: {
    connections: 10,
    pause: 20,
    attack: (socket, token) =>
      socket.write(
        `GET /plants HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n${create(token)}Content-Length: 40\r\n\r\nDELETE /plants/1 HTTP/1.1\r\nHost: x\r\n\r\n`,
      ),
  },
  'TLS to a plain port, and nonsense': {
    connections: 10,
    pause: 20,
    attack: (socket) => socket.write(Buffer.from(Array.from({ length: 500 }, () => Math.random() * 256))),
  },
  'idle connections': { connections: 300, pause: 500, attack: () => undefined },
};

/**
 * Sends a request, and again after each response.
 * @param {import('node:net').Socket} socket
 * @param {string | (() => string)} text
 */
function repeat(socket, text) {
  const next = () => socket.write(typeof text === 'string' ? text : text());
  socket.on('data', next);
  next();
}

/** Sends text every `every` ms. @param {import('node:net').Socket} socket @param {string} text @param {number} every */
function drip(socket, text, every) {
  const timer = setInterval(() => socket.write(text), every);
  socket.resume().once('close', () => clearInterval(timer));
}

/** @param {import('node:net').Socket} socket @param {string} token @param {string} body */
function post(socket, token, body) {
  socket.resume();
  socket.end(`${create(token)}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

/** Returns the head of a create, without Content-Length. @param {string} token */
function create(token) {
  return `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
}

/** @param {number} length */
function random(length) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-';
  return Array.from({ length }, () => alphabet[Math.floor(Math.random() * alphabet.length)]).join('');
}
