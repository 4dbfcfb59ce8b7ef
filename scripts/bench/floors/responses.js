// The constant responses of the floors, as long as the Plant Store's responses to the same requests.

const plant = '{"name":"Monstera deliciosa","tag":"indoor"}';

/** @param {number} count */
const list = (count) => Buffer.from(`[${Array(count).fill(plant).join(',')}]`);

const refused = Buffer.from('{"error":40100,"message":"The access token is missing."}');
const lists = { hundred: list(100), twenty: list(20), long: list(100_000) };

/**
 * Returns the status and body for a request.
 * @param {string | undefined} method
 * @param {string | undefined} path
 * @param {string | undefined} authorization
 * @returns {{ status: number, body: Buffer }}
 */
export function respond(method, path, authorization) {
  if (authorization === undefined) return { status: 401, body: refused };
  if (method === 'GET') {
    if (path === '/plants') return { status: 200, body: lists.long };
    return { status: 200, body: path === '/plants?limit=20' ? lists.twenty : lists.hundred };
  }
  return method === 'POST' ? created : deleted;
}

const created = { status: 200, body: Buffer.from(plant) };
const deleted = { status: 204, body: Buffer.alloc(0) };
