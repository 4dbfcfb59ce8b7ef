// Register, log in and log out in a database of their own, for a service without a store: with the contract of login/.
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { Kysely, Migrator, sql, type Migration } from 'kysely';
import {
  ApiError,
  FairQueue,
  hashPassword,
  isPassword,
  networkOf,
  type Caller,
  type ErrorEntry,
  type ServiceContext,
} from 'contract-server';
import { dialectOf } from '../sales/sales.js';

interface Tables {
  accounts: { name: string; owner: string; password: string };
  attempts: { name: string; network: string; since: number | string; count: number };
  sessions: { hash: string; owner: string; expires: number };
}
interface Request {
  address: string;
  body: { name: string; password: string };
}

export const accountErrors = {
  nameTaken: { code: 40900, message: 'The name is taken.' },
  wrongLogin: { code: 40301, message: 'The name or the password is wrong.' },
  tooManyAttempts: { code: 42901, message: 'There were too many attempts for this name; try again later.' },
} as const satisfies Record<string, ErrorEntry>;

const mostAttempts = 10;
const quarter = 15 * 60 * 1000;
const sessionTime = 30 * 24 * 60 * 60 * 1000;
const hashOf = (token: string) => createHash('sha256').update(token).digest('hex');

/** Each is run once, in the order of the names; what was released never changes. */
const migrations: Record<string, Migration> = {
  '0001_accounts': {
    async up(database) {
      const tables = [
        'accounts (name text PRIMARY KEY, owner text NOT NULL, password text NOT NULL)',
        `attempts (name text NOT NULL, network text NOT NULL, since bigint NOT NULL, count integer NOT NULL,
          PRIMARY KEY (name, network))`,
        'sessions (hash text PRIMARY KEY, owner text NOT NULL, expires bigint NOT NULL)',
      ];
      for (const table of tables) await sql.raw(`CREATE TABLE ${table}`).execute(database);
    },
  },
};

/** Run it before the service starts, as a step of the deployment: threads that migrate at once would fail. */
export async function migrateAccounts(context: Pick<ServiceContext, 'log'>, url: string) {
  const database = new Kysely<Tables>({ dialect: dialectOf(context, url, 'public') });
  const provider = { getMigrations: () => Promise.resolve(migrations) };
  const { error } = await new Migrator({ db: database, provider }).migrateToLatest();
  await database.destroy();
  if (error !== undefined) throw new Error('the database was not migrated', { cause: error });
}

export function openAccounts(context: Pick<ServiceContext, 'log'>, url: string) {
  const database = new Kysely<Tables>({ dialect: dialectOf(context, url, 'public') });
  const registering = new FairQueue(1, 20);
  const loggingIn = new FairQueue(2, 20);

  /** Counts an attempt before the password is compared, in one statement, so that attempts at the same time count, too. */
  const countAttempt = async (name: string, network: string) => {
    const now = Date.now();
    await database
      .deleteFrom('attempts')
      .where('since', '<', now - quarter)
      .execute();
    const { count, since } = await database
      .insertInto('attempts')
      .values({ name, network, since: now, count: 1 })
      .onConflict((conflict) =>
        conflict.columns(['name', 'network']).doUpdateSet({ count: sql`attempts.count + 1` }),
      )
      .returning(['count', 'since'])
      .executeTakeFirstOrThrow();
    if (count <= mostAttempts) return;
    const seconds = Math.max(1, Math.ceil((Number(since) + quarter - now) / 1000));
    throw new ApiError(accountErrors.tooManyAttempts, { headers: { 'retry-after': `${seconds}` } });
  };

  return {
    handlers: {
      register: async ({ address, body: { name, password: text } }: Request) => {
        const password = await registering.run(networkOf(address), () => hashPassword(text));
        await database.insertInto('accounts').values({ name, owner: randomUUID(), password }).execute();
      },
      logIn: async ({ address, body: { name, password } }: Request) => {
        const network = networkOf(address);
        const account = await loggingIn.run(network, async () => {
          await countAttempt(name, network);
          const row = await database
            .selectFrom('accounts')
            .selectAll()
            .where('name', '=', name)
            .executeTakeFirst();
          return (await isPassword(password, row?.password)) ? row : undefined;
        });
        if (account === undefined) return new ApiError(accountErrors.wrongLogin);
        const token = randomBytes(32).toString('base64url');
        const session = { hash: hashOf(token), owner: account.owner, expires: Date.now() + sessionTime };
        await database.insertInto('sessions').values(session).execute();
        return { token };
      },
      logOut: async ({ caller }: { caller: Caller }) => {
        await database.deleteFrom('sessions').where('hash', '=', hashOf(caller.credential!())).execute();
      },
    },
    verifiers: {
      bearerAuth: async (token: string) => {
        const session = await database
          .selectFrom('sessions')
          .selectAll()
          .where('hash', '=', hashOf(token))
          .executeTakeFirst();
        // PostgreSQL returns 64-bit integers as texts.
        const expiresAt = Number(session?.expires);
        return session && { subject: session.owner, scopes: ['tasks:read', 'tasks:write'], expiresAt };
      },
    },
    credentialSchemes: ['bearerAuth'] as const,
    around: async (_operationId: string, next: () => Promise<unknown>) =>
      next().catch((error: unknown) => {
        const { code, message } = error as Error & { code?: unknown };
        const isTaken = code === '23505' || message.startsWith('UNIQUE constraint');
        throw isTaken ? new ApiError(accountErrors.nameTaken, { cause: error }) : error;
      }),
    check: async () => {
      await sql`SELECT 1 FROM accounts LIMIT 1`.execute(database);
    },
    close: () => database.destroy(),
  };
}
