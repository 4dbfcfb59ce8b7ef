// Services of two richer contracts, the garden's of OpenAPI 3.0 and the orchard's of 3.1, served by the same app.
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { parse } from 'yaml';
import { edited, type Edits } from '../edited.js';
import { engines, type Engine } from '../engines.js';
import { startService, type ServiceOptions } from '../service.js';
import type { AppOptions } from '../../../dist/process/app.js';
import { loadContract, type Contract } from '../../../dist/contract/contract.js';
import type { Handlers } from '../../../dist/contract/handlers.js';
import { exactJson, JsonText } from '../../../dist/contract/document/json-text.js';
import { TypedBody, UploadedFile } from '../../../dist/contract/raw-body.js';
import type { Verifiers } from '../../../dist/contract/verifiers.js';
import { ApiError } from '../../../dist/base/errors.js';
import { plantErrors } from '../../../../../dist/plants/errors.js';
import { service } from '../../../../../dist/service.js';
import type { operations as OrchardOperations, operationSecurity as OrchardSecurity } from './orchard.gen.js';
import type {
  components,
  operations,
  operationSecurity,
  requiredScope,
  securitySchemes,
} from './types.gen.js';

type Bed = components['schemas']['Bed'];

/** The bytes of the contracts, and their documents. */
export const gardenBytes = readFileSync(new URL('./openapi.yaml', import.meta.url));
export const gardenDocument = parse(gardenBytes.toString()) as object;
const orchardBytes = readFileSync(new URL('./orchard.yaml', import.meta.url));
export const orchardDocument = parse(orchardBytes.toString()) as object;

/** An error response whose message ends with the given text. */
export const error = (code: number, end: string) => ({
  status: Math.floor(code / 100),
  json: { error: code, message: new RegExp(`${end.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\.$`) },
});

/** Loads the contract of a document with changes. */
export const loadEdited = (document: object, edits: Edits = {}, rendersErrors = false): Contract =>
  loadContract(Buffer.from(JSON.stringify(edited(document, edits))), rendersErrors);

const gardenContract = loadContract(gardenBytes);

/** The key of the garden's apiKey scheme, and the one that cannot be verified. */
export const gardenKey = 'open sesame';
export const unknowableKey = 'ask me later';

/** What the garden's app is made of; `queries` holds what listBeds was asked for. */
export function createGarden() {
  const beds = new Map<string, { bed: Bed; revision: bigint }>();
  const queries: unknown[] = [];
  const scopes: readonly requiredScope[] = ['beds:read', 'beds:write', 'seeds:sow'];
  const handlers: Handlers<operations, operationSecurity> = {
    describeGarden: () => Promise.resolve({ name: 'A garden' }),
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
    uploadPhotos: ({ body }) => Promise.resolve(shown(body)),
    async listSeeds(request) {
      // A parameter with a default is never undefined.
      const limit: number = request.query.limit;
      queries.push({ ...request, limit });
      return Promise.resolve([{ kind: 'rose', id: 9007199254740993n, depth: 2, rows: 1n }]);
    },
    async sowSeed({ body, caller }) {
      queries.push({ body, caller });
      const seed = { ...body, id: 9007199254740993n };
      if (body.kind === 'known') return Promise.resolve({ status: 200, body: seed });
      if (body.kind === 'odd') return Promise.resolve({ status: 202, body: seed } as never);
      return Promise.resolve({ status: 201, body: seed, headers: { Location: '/seeds/1' } });
    },
    getSeed: ({ params }) => Promise.resolve({ ...params }),
    async waterSeed({ body }) {
      queries.push(body);
      return Promise.resolve(undefined);
    },
    async changeSeed({ body }) {
      queries.push(body);
      return Promise.resolve(body ?? null);
    },
    removeBed: () => Promise.reject(new ApiError(plantErrors.plantNotFound)),
  };
  const verifiers: Verifiers<securitySchemes> = {
    apiKey: (key) => {
      if (key === gardenKey) return { subject: 'the gardener', scopes };
      if (key === unknowableKey) return Promise.reject(new ApiError('unavailable'));
      return undefined;
    },
    apiKeyInQuery: (key) => (key === gardenKey ? { subject: 'the app', scopes: ['beds:write'] } : undefined),
    // A token is the name of its scope.
    gardenAuth: (token) => ({ subject: 'the user', scopes: [token.replace('.', ':')] }),
  };
  const options = {
    service: { ...service, scopes, open: () => ({ handlers, verifiers }) },
    contract: gardenContract,
  } satisfies Partial<AppOptions>;
  return { options, handlers, verifiers, queries };
}

/** A form as JSON, with the bytes of files in Base64. */
function shown(value: object): object {
  const show = (one: unknown): unknown => {
    if (one instanceof UploadedFile) {
      const { bytes, mediaType, filename } = one;
      return { bytes: Buffer.from(bytes).toString('base64'), mediaType, filename };
    }
    return Array.isArray(one) ? one.map(show) : one;
  };
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, show(one)]));
}

/** What a test may change about the garden. */
export interface GardenOptions extends Pick<ServiceOptions, 'corsOrigins' | 'verifiers' | 'logger'> {
  /** Changes of its contract. */
  edits?: Edits;
  /** More handlers, for what the changes add. */
  handlers?: Record<string, unknown>;
  /** The engine that stores the beds; SQLite by default. */
  engine?: Engine;
}

/** Serves the garden; `sow` sends a seed with more fields. */
export async function startGarden(
  t: Test,
  { edits, handlers, verifiers, engine = engines[0]!, ...more }: GardenOptions = {},
) {
  const { options, handlers: own, verifiers: ownVerifiers, queries } = createGarden();
  const service = await startService(t, engine, {
    ...options,
    ...more,
    contract: edits === undefined ? options.contract : loadEdited(gardenDocument, edits),
    handlers: { ...own, ...handlers },
    verifiers: { ...ownVerifiers, ...verifiers },
  });
  const sow = (fields: string) =>
    service.call('POST', '/seeds?key=open+sesame', {
      token: 'seeds.sow',
      body: `{"kind":"rose","depth":2${fields}}`,
    });
  return { ...service, queries, sow };
}

const echo = <Body>({ body }: { body: Body }) => Promise.resolve(body);

/** The handlers of the orchard: most return what they get. */
const orchardHandlers: Handlers<OrchardOperations, OrchardSecurity> = {
  getTree: () => Promise.resolve({ kind: 'tree', height: 1, roots: 9223372036854775807n }),
  plantTree: echo,
  exportTrees: () => Promise.resolve('kind,height\r\ntree,1\r\n'),
  findTrees: ({ query }) => Promise.resolve(query),
  registerVisit: echo,
  async removeVisits({ body }) {
    if (body.names.includes('unknown')) throw new ApiError(plantErrors.plantNotFound);
    return Promise.resolve(undefined);
  },
  writeNote: ({ body = '' }) => Promise.resolve({ note: body.trim() }),
  replacePhoto: ({ body }) => Promise.resolve({ bytes: Buffer.from(body).toString('base64') }),
  async photographTree({ params }) {
    const tree = { kind: 'tree', height: 1, roots: 9007199254740993n } as const;
    if (params['tree-id'] === 'hidden') return Promise.resolve(tree);
    return Promise.resolve(new TypedBody('image/jpeg', Buffer.from([255, 216, 255])));
  },
  drawTree: () => Promise.resolve(Buffer.from([137, 80, 78, 71])),
  async listHarvests({ query: { after = 0, limit = 3 } }) {
    const total = 5;
    const end = Math.min(after + limit, total);
    let last = after;
    const items = {
      nextPage: () => Promise.resolve({ json: `{"number":${++last}}`, more: last < end }),
    };
    return Promise.resolve({ items, next: () => (last < total ? last : undefined), total });
  },
  recordHarvest: echo,
  growBranch: echo,
  printLabel: echo,
  countBlossoms: ({ params }) => Promise.resolve(params),
  postTreesByTreeIdPrune: () => Promise.resolve(undefined),
};

/** What the app of the orchard is made of: a contract of OpenAPI 3.1. */
export const orchard = {
  contract: loadContract(orchardBytes),
  handlers: orchardHandlers,
} satisfies ServiceOptions;
