// Sends the requests of scripts that check every response.
import { request } from 'node:http';

/**
 * @typedef {object} Message
 * @property {string} [method] - GET by default.
 * @property {string} path
 * @property {string} [token]
 * @property {string} [body] - JSON.
 * @property {Record<string, string>} [headers]
 *
 * @typedef {{ status: number, text: string, headers: import('node:http').IncomingHttpHeaders }} Response
 */

/**
 * Sends a request, and reads the whole response.
 * @param {string} origin
 * @param {Message} message
 * @param {import('node:http').RequestOptions} [options] - By default, the request has a connection of its own, and fails
 *   after 60 s.
 * @returns {Promise<Response>} Without a complete response, the status is 0, and the text is the error.
 */
export function send(origin, { method = 'GET', path, token, body, headers }, options = {}) {
  const { agent = false, timeout = 60_000, ...rest } = options;
  return new Promise((resolve) => {
    const fail = (/** @type {NodeJS.ErrnoException} */ { code, message }) =>
      resolve({ status: 0, text: code ?? message, headers: {} });
    const sent = request(origin + path, {
      ...{ method, agent, timeout, ...rest },
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('error', fail);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
      );
    });
    sent.on('error', fail);
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${timeout / 1_000} s`)));
    sent.end(body);
  });
}
