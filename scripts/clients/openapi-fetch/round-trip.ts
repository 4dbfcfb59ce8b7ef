// The round trip of ../run.js by openapi-typescript's types with openapi-fetch.
import createClient from 'openapi-fetch';
import type { components, paths } from './client/types.js';
import { exactBody } from './exact-body.js';

const { BASE_URL, TOKEN, READ_TOKEN } = process.env;

const connect = (token: string | undefined) =>
  createClient<paths>({
    baseUrl: BASE_URL!,
    headers: { authorization: `Bearer ${token}` },
    bodySerializer: exactBody,
  });

/** The status and the code of a typed error. */
const outcome = ({ response, error }: { response: Response; error?: components['schemas']['Error'] }) => [
  response.status,
  error?.error,
];

const plants = connect(TOKEN);
const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await plants.POST('/plants', { body: { id: own, name: 'own' } });
await plants.POST('/plants', { body: { id: max, name: 'max' } });
const { data } = await plants.GET('/plants', { params: { query: { limit: 3 } } });
await plants.DELETE('/plants/{id}', { params: { path: { id: own } } });
const errors = [
  outcome(await plants.POST('/plants', { body: { id: max, name: 'other' } })),
  outcome(await connect('wrong').GET('/plants')),
  outcome(await connect(READ_TOKEN).DELETE('/plants/{id}', { params: { path: { id: 1n } } })),
  outcome(await plants.DELETE('/plants/{id}', { params: { path: { id: own } } })),
];
console.log(JSON.stringify({ list: data?.map(({ name }) => name), errors }));
