// The storage of the Plant Store as tests open it: with its definition, and with the repository of its plants.
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Test } from 'tap';
import {
  type ListRange,
  type Page,
  StorageError,
  type Storage as AnyStorage,
  type StoreDefinition,
} from '../../dist/storage/core/interface.js';
import { completeMigrations } from '../../dist/cli/migrations.js';
import * as accessToken from '../../dist/storage/core/tokens.js';
import { PlantRepository as Repository, plants } from '../../../../dist/plants/repository.js';
import { service } from '../../../../dist/service.js';
import { loadSchema, type Migration } from '../../dist/storage/core/migrations.js';
import type { WriteLimits } from '../../dist/storage/core/group-commit.js';
import * as open from '../../dist/storage/open.js';
import * as sqliteBackup from '../../dist/storage/sqlite/copy.js';
import * as sqliteRestore from '../../dist/storage/sqlite/restore.js';

export { completeMigrations, type Migration };
export type { PostgresOptions } from '../../dist/storage/postgres/connection/statement-runner.js';

// Imported where it is used, since few tests need it.
const postgres = () => import('../../dist/storage/postgres/storage.js');

/** The methods of the repository of plants, as the service calls them, except that lists are read by single pages. */
export type PlantRepository = Pick<Repository, Exclude<keyof Repository, 'delete' | 'list'>> & {
  delete(subject: string, id: bigint): Promise<boolean>;
  list(subject: string, range: ListRange): Promise<Page>;
};
/** A store of the Plant Store. */
export type Storage = AnyStorage & { readonly plants: PlantRepository };
/** A store that threads can share. */
export type OpenStorage = open.OpenStorage &
  Storage & {
    /** Opens the store as another thread does, but in this one. It must be closed before the first. */
    readonly another: (writes?: Partial<WriteLimits>) => Promise<Storage>;
  };

/** All scopes of the Plant Store. */
export const { scopes } = service;

/** Adds the repository of plants to a store. */
export function withPlants<S extends AnyStorage>(storage: S): S & { readonly plants: PlantRepository } {
  const collection = storage.collection(plants);
  const repository = new Repository(collection) as object as PlantRepository;
  return Object.assign(storage, { plants: withMethods(repository, { list: collection.page }) });
}

/** The repository of plants for handlers: its lists have the pages of that of tests. */
export function repositoryOf(storage: Storage): Repository {
  const collection = { ...storage.collection(plants), page: storage.plants.list };
  const { list } = Repository.prototype;
  return withMethods(storage.plants as object as Repository, { list: list.bind(new Repository(collection)) });
}

type Tail<F> = F extends (first: never, ...rest: infer Rest) => unknown ? Rest : never;

/** Opens a store, as the server does. */
export async function openStorage(...options: Tail<typeof open.openStorage>): Promise<OpenStorage> {
  const storage = await open.openStorage(service, ...options);
  const another = async (writes?: Partial<WriteLimits>) =>
    withPlants(await open.openStorage(service, options[0], writes, {}, { share: storage.share?.() }));
  return Object.assign(withPlants(storage), { another });
}

/** Opens a store, as the commands do. */
export async function openExistingStorage(url: string): Promise<Storage> {
  return withPlants(await open.openExistingStorage(service, url));
}

/** Backs up a SQLite store. */
export function backUp(url: string, path: string): ReturnType<typeof sqliteBackup.backUp> {
  return sqliteBackup.backUp(service.name, url, path);
}

/** Restores a SQLite store. */
export function restore(
  url: string,
  backup: string,
  { isDryRun = false, keepsTokens = false, definition = service } = {},
): ReturnType<typeof sqliteRestore.restore> {
  return sqliteRestore.restore(definition, url, backup, { isDryRun, keepsTokens });
}

/** Opens a store on PostgreSQL. */
export async function openPostgres(
  options: Omit<Parameters<Awaited<ReturnType<typeof postgres>>['openPostgres']>[0], 'store'>,
): Promise<Storage> {
  const { openPostgres } = await postgres();
  return withPlants(await openPostgres({ store: service, ...options }));
}

/** The migrations of the Plant Store for an engine. */
export function loadMigrations(engine: 'sqlite' | 'postgres'): readonly Migration[] {
  return loadSchema(service, engine).migrations;
}

/** Migrates a store on PostgreSQL. */
export async function migratePostgres(
  url: string,
  migrations = loadMigrations('postgres'),
): Promise<readonly Migration[]> {
  const { migratePostgres } = await import('../../dist/storage/postgres/migrate.js');
  return migratePostgres({ ...service, migrations }, url);
}

/**
 * The Plant Store as a later release has it: with one more migration, the same for each engine.
 * @param oldest - The oldest release that may use the schema then.
 */
export async function laterRelease(
  t: Test,
  sql: string,
  oldest = '1.0.0',
  earlier: StoreDefinition = service,
): Promise<StoreDefinition> {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-'));
  t.teardown(() => rm(folder, { recursive: true }));
  await cp(fileURLToPath(earlier.migrations!), folder, { recursive: true });
  for (const engine of ['sqlite', 'postgres']) {
    const number = String((await readdir(join(folder, engine))).length + 1).padStart(4, '0');
    await writeFile(
      join(folder, engine, `${number}_later.sql`),
      `-- oldest-application: ${oldest}\n${sql};\n`,
    );
  }
  return { ...earlier, migrations: pathToFileURL(`${folder}/`) };
}

/** Writes the migrations of a service that has none, into the folder that it names. */
export function writeMigrations(store: StoreDefinition): void {
  const { faults } = completeMigrations(store, false);
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

/** Creates a token of the Plant Store. */
export function issueToken(
  tokens: AnyStorage['tokens'],
  token: Omit<accessToken.NewToken, 'prefix'>,
): ReturnType<typeof accessToken.issueToken> {
  return accessToken.issueToken(tokens, { prefix: service.tokenPrefix, ...token });
}

/** The outcome of a call of the store, or the reason for its failure. */
export async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  return call.catch((error: unknown) => {
    if (error instanceof StorageError) return error.failure;
    throw error;
  });
}

/** The reason for which a call of the store failed. */
export const failure = (call: Promise<unknown>) => outcomeOf(call.then(() => 'no failure'));

/** An object with some of its methods replaced; the others are called on the object itself. */
export function withMethods<T extends object>(object: T, replaced: Partial<T> = {}): T {
  return new Proxy(object, {
    get(target, name) {
      const value: unknown = Reflect.get(name in replaced ? replaced : target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
