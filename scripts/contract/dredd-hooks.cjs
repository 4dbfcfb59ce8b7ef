// Prepares each of Dredd's requests, so that the service returns the status that Dredd expects. Dredd takes its requests
// from the examples of the contract, and expects each declared status in turn.
// @ts-expect-error Dredd provides this module.
const hooks = require('hooks');

/**
 * @typedef {object} Transaction - A request of Dredd, with the response that it expects.
 * @property {{ method: string, body: string, headers: Record<string, string | null | undefined> }} request
 * @property {string} fullPath
 * @property {{ statusCode: string }} expected
 * @property {boolean} [skip]
 * @property {string} [fail]
 */

const { BASE_URL, TOKEN, READ_TOKEN, WRITE_TOKEN } = process.env;
const authorization = `Bearer ${TOKEN}`;
const json = { authorization, 'content-type': 'application/json' };
const create = () =>
  fetch(`${BASE_URL}/plants`, {
    method: 'POST',
    headers: json,
    body: '{"id":1,"name":"Monstera deliciosa"}',
  });
const remove = () => fetch(`${BASE_URL}/plants/1`, { method: 'DELETE', headers: { authorization } });

/**
 * Makes a request invalid: its body, its query or its path.
 * @param {Transaction} transaction
 */
function invalidate(transaction) {
  if (transaction.request.method === 'POST') transaction.request.body = '{"id":"1"}';
  transaction.fullPath = transaction.fullPath
    .replace('limit=100', 'limit=0')
    .replace('/plants/1', '/plants/one');
}

/**
 * What each status needs. A status without an entry cannot be provoked from outside: 429, 500 and 503.
 * @type {Record<string, (transaction: Transaction) => unknown>}
 */
const preparations = {
  200: remove,
  204: create,
  304: async ({ request, fullPath }) => {
    const response = await fetch(BASE_URL + fullPath, { headers: { authorization } });
    request.headers['If-None-Match'] = response.headers.get('etag');
  },
  400: invalidate,
  401: ({ request }) => delete request.headers['Authorization'],
  403: ({ request }) => {
    request.headers['Authorization'] = `Bearer ${request.method === 'GET' ? WRITE_TOKEN : READ_TOKEN}`;
  },
  404: remove,
};

hooks.beforeEach((/** @type {Transaction} */ transaction, /** @type {() => void} */ done) => {
  transaction.request.headers['Authorization'] = authorization;
  const prepare = preparations[transaction.expected.statusCode];
  if (prepare === undefined) transaction.skip = true;
  Promise.resolve(prepare?.(transaction)).then(
    () => done(),
    (error) => {
      transaction.fail = String(error);
      done();
    },
  );
});
