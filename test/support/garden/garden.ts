// A second service, of a richer contract: served by the same app, with handlers and a store of its own.
import { readFileSync } from 'node:fs';
import type { AppOptions } from '../../../dist/app.js';
import { loadContract } from '../../../dist/contract/contract.js';
import type { Handlers } from '../../../dist/contract/handlers.js';
import { exactJson, JsonText } from '../../../dist/contract/json-text.js';
import { ApiError } from '../../../dist/errors.js';
import { plantErrors } from '../../../dist/plants/errors.js';
import { service } from '../../../dist/service.js';
import type { components, operations, operationSecurity, requiredScope } from './types.gen.js';

type Bed = components['schemas']['Bed'];

/** The bytes of the garden's contract. */
export const gardenBytes = readFileSync(new URL('./openapi.yaml', import.meta.url));

/** The key of the garden's apiKey scheme, and the one for which nobody knows whether it is good. */
export const gardenKey = 'open sesame';
export const unknowableKey = 'ask me later';

/** What the garden's app is made of; `queries` holds what listBeds was asked for. */
export function createGarden() {
  const beds = new Map<string, { bed: Bed; revision: bigint }>();
  const queries: unknown[] = [];
  const scopes: readonly requiredScope[] = ['beds:read', 'beds:write'];
  const handlers: Handlers<operations, operationSecurity> = {
    async describeGarden() {
      return Promise.resolve({ name: 'A garden' });
    },
    async listBeds({ caller, query }) {
      queries.push({ ...query });
      if (query.title === 'missing') throw new ApiError(plantErrors.idTaken, { detail: caller.subject });
      const rows = [...beds.values()].map(({ bed }) =>
        JSON.stringify({ title: bed.title, area: bed.area, rows: bed.rows }),
      );
      let read = 0;
      return Promise.resolve({
        async nextPage() {
          if (query.title === 'unread') throw new Error('a row was read');
          return Promise.resolve({ json: rows[read] ?? '', more: ++read < rows.length });
        },
      });
    },
    async getBed({ params }) {
      const found = beds.get(params.bed);
      if (found === undefined) throw new ApiError(plantErrors.plantNotFound);
      const { bed, revision } = found;
      return Promise.resolve({
        // With white space, which shows that the text is sent as it is.
        body: new JsonText<Bed>(` ${exactJson(bed)}`),
        headers: { 'X-Revision': revision, ...(bed.shady === true && { 'X-Note': 'in the shade' }) },
      });
    },
    async replaceBed({ params, body }) {
      const revision = (beds.get(params.bed)?.revision ?? 9007199254740992n) + 1n;
      beds.set(params.bed, { bed: body, revision });
      return Promise.resolve(body);
    },
    async removeBed() {
      return Promise.reject(new ApiError(plantErrors.plantNotFound));
    },
  };
  const options = {
    service,
    contract: loadContract(gardenBytes),
    handlers,
    scopes,
    verifiers: {
      apiKey: ({ headers }) => {
        const key = headers['x-garden-key'];
        if (key === gardenKey) return { subject: 'the gardener', scopes };
        if (key === unknowableKey) return Promise.reject(new ApiError('unavailable'));
        return new ApiError(key === undefined ? 'missingToken' : 'invalidToken');
      },
    },
  } satisfies Partial<AppOptions>;
  return { options, queries };
}
