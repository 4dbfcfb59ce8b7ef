// Sends the requests of prove:workers.
import { request as httpRequest } from 'node:http';

/** When a client gives up, in ms. */
const patience = 5_000;

/** @typedef {{ status: number, text: string }} Response */
/** @typedef {{ method: string, path: string, body?: string }} Message */

/** A request that failed without a complete response. */
export class Lost extends Error {
  /** Whether the server cannot have received it. */
  unsent;

  /** @param {Error & { code?: string }} cause */
  constructor(cause) {
    super(cause.message, { cause });
    this.unsent = cause.code === 'ECONNREFUSED';
  }
}

/** The request that creates a plant. @param {{ id: number, name: string }} plant @returns {Message} */
export function creation({ id, name }) {
  return { method: 'POST', path: '/plants', body: JSON.stringify({ id, name }) };
}

/** The request that deletes a plant. @param {{ id: number }} plant @returns {Message} */
export function deletion({ id }) {
  return { method: 'DELETE', path: `/plants/${id}` };
}

/** The request for all plants. @type {Message} */
export const listing = { method: 'GET', path: '/plants' };

/** The id of the requests on new connections, by which the log shows which workers serve them. */
export const newConnectionId = 'new-connection';

/** The code of an error response; 0 if it has none. @param {string} text @returns {number} */
export function codeOf(text) {
  return Number(/"error":\s*(\d+)/.exec(text)?.[1] ?? 0);
}

/**
 * Sends a request.
 * @param {number} port
 * @param {string} token
 * @param {Message} message
 * @param {import('node:http').Agent} [agent] - Keeps the connection; by default the request has one of its own.
 * @returns {Promise<Response>}
 * @throws {Lost} when there is no complete response.
 */
export function send(port, token, { method, path, body = '' }, agent) {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(agent === undefined && { 'x-request-id': newConnectionId }),
    ...(body !== '' && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
  };
  return new Promise((resolve, reject) => {
    const fail = (/** @type {Error} */ error) => {
      clearTimeout(timer);
      reject(new Lost(error));
    };
    const options = { host: '127.0.0.1', port, method, path, headers, agent: agent ?? false };
    const request = httpRequest(options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('error', fail);
      response.on('end', () => {
        clearTimeout(timer);
        resolve({ status: response.statusCode ?? 0, text });
      });
    });
    const timer = setTimeout(() => {
      request.destroy(new Error(`no response within ${patience / 1_000} s`));
    }, patience);
    request.on('error', fail);
    request.end(body);
  });
}
