// Register, log in and log out.
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import {
  ApiError,
  Documents,
  FairQueue,
  hashPassword,
  isPassword,
  networkOf,
  shared,
  type Caller,
  type CollectionDefinition,
  type ErrorEntry,
  type ServiceContext,
} from 'contract-server';

export const loginErrors = {
  nameTaken: { code: 40900, message: 'The name is taken.' },
  wrongLogin: { code: 40301, message: 'The name or the password is wrong.' },
  tooManyAttempts: { code: 42901, message: 'There were too many attempts for this name; try again later.' },
} as const satisfies Record<string, ErrorEntry>;

interface Account {
  /** The subject of the caller's documents: no name that others could have had before. */
  user: string;
  password: string;
}
interface Attempts {
  since: number;
  count: number;
}
interface Request {
  /** That of the client. */
  address: string;
  body: { name: string; password: string };
}

export const loginCollections: Record<'accounts' | 'attempts', CollectionDefinition<'text'>> = {
  accounts: { name: 'accounts', id: 'text', column: 'account' },
  attempts: { name: 'attempts', id: 'text', column: 'attempt' },
};

/** How many attempts a name has in a quarter of an hour, right or wrong: from one network, and from all together. */
const mostAttempts = { network: 10, all: 100 };
const quarter = 15 * 60 * 1000;
const sessionTime = 30 * 24 * 60 * 60 * 1000;
const everyone = shared('login');

/**
 * Names share one of 65,536 counts of each kind, so that invented names store no more than these. Only the key tells which
 * names share one: otherwise, attempts with one name could lock out another.
 */
const countOf = (text: string, key: string) =>
  createHmac('sha256', key).update(text).digest('hex').slice(0, 4);

/**
 * Each has its own, so that neither delays the other. Node.js has four threads for these, which it also needs for files and
 * names of hosts.
 */
const registering = new FairQueue(1, 20);
const loggingIn = new FairQueue(2, 20);

export function loginOperations({ collection, transaction, tokens }: ServiceContext) {
  const accounts = new Documents<string, Account>(collection(loginCollections.accounts), {
    user: true,
    password: true,
  });
  const attempts = new Documents<string, Attempts>(collection(loginCollections.attempts), {
    since: true,
    count: true,
  });
  const keys = new Documents<string, { key: string }>(collection(loginCollections.attempts), { key: true });

  /** Counts an attempt before the password is compared, so that attempts at the same time count, too. */
  const begin = (name: string, network: string) =>
    transaction(everyone, async (tx) => {
      const now = Date.now();
      // The first attempt of all makes the key for all processes.
      const { key } = (await keys.value(tx, 'key')) ?? { key: randomBytes(32).toString('hex') };
      await keys.write(tx, 'key', { when: 'any', value: { key } });
      const counts = [
        { id: `network ${countOf(`${name} ${network}`, key)}`, most: mostAttempts.network },
        { id: countOf(name, key), most: mostAttempts.all },
      ];
      for (const { id, most } of counts) {
        const last = await attempts.value(tx, id);
        const { since, count } = last && now - last.since < quarter ? last : { since: now, count: 0 };
        if (count >= most) {
          const seconds = Math.ceil((since + quarter - now) / 1000);
          throw new ApiError(loginErrors.tooManyAttempts, { headers: { 'retry-after': `${seconds}` } });
        }
        await attempts.write(tx, id, { when: 'any', value: { since, count: count + 1 } });
      }
      return accounts.value(tx, name);
    });

  return {
    register: async ({ address, body: { name, password } }: Request) => {
      const hash = await registering.run(networkOf(address), () => hashPassword(password));
      const value = { user: randomUUID(), password: hash };
      const outcome = await accounts.write(everyone, name, { when: 'absent', value });
      if (outcome !== 'inserted') throw new ApiError(loginErrors.nameTaken);
    },
    logIn: async ({ address, body: { name, password } }: Request) => {
      const network = networkOf(address);
      // An attempt that is refused before its turn does not count.
      const account = await loggingIn.run(network, async () => {
        const found = await begin(name, network);
        return (await isPassword(password, found?.password)) ? found : undefined;
      });
      if (account === undefined) throw new ApiError(loginErrors.wrongLogin);
      const { secret } = await tokens.issue(account.user, {
        scopes: ['tasks:read', 'tasks:write'],
        expiresIn: sessionTime,
      });
      return { token: secret };
    },
    logOut: async ({ caller: { subject, tokenId } }: { caller: Caller }) => {
      if (tokenId !== undefined) await tokens.revoke(subject, tokenId);
    },
  };
}
