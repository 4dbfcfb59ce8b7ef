// A file of packages/server/docs/login.md, written by "npm run generate"; do not edit.
// Register, log in and log out.
import { createHash, randomUUID } from 'node:crypto';
import {
  ApiError,
  Documents,
  shared,
  type Caller,
  type CollectionDefinition,
  type ErrorEntry,
  type ServiceContext,
} from '../../../dist/index.js';
import { hashPassword, isPassword } from './passwords.js';

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
interface Credentials {
  name: string;
  password: string;
}

export const loginCollections: Record<'accounts' | 'attempts', CollectionDefinition<'text'>> = {
  accounts: { name: 'accounts', id: 'text', column: 'account' },
  attempts: { name: 'attempts', id: 'text', column: 'attempt' },
};

/** How many attempts a name has in a quarter of an hour, right or wrong. */
const mostAttempts = 10;
const quarter = 15 * 60 * 1000;
const sessionTime = 30 * 24 * 60 * 60 * 1000;
const everyone = shared('login');

/** Names share one of 65,536 counts, so that invented names store no more than these. */
const countOf = (name: string) => createHash('sha256').update(name).digest('hex').slice(0, 4);

export function loginOperations({ collection, transaction, tokens }: ServiceContext) {
  const accounts = new Documents<string, Account>(collection(loginCollections.accounts), {
    user: true,
    password: true,
  });
  const attempts = new Documents<string, Attempts>(collection(loginCollections.attempts), {
    since: true,
    count: true,
  });

  /** Counts an attempt before the password is looked at, so that attempts at the same time count, too. */
  const begin = (name: string) =>
    transaction(everyone, async (tx) => {
      const now = Date.now();
      const id = countOf(name);
      const last = await attempts.in(tx).get(id);
      const { since, count } = last && now - last.since < quarter ? last : { since: now, count: 0 };
      if (count >= mostAttempts) {
        const seconds = Math.ceil((since + quarter - now) / 1000);
        throw new ApiError(loginErrors.tooManyAttempts, { headers: { 'retry-after': `${seconds}` } });
      }
      await attempts.in(tx).write(id, { when: 'any', value: { since, count: count + 1 } });
      return accounts.in(tx).get(name);
    });

  return {
    register: async ({ body: { name, password } }: { body: Credentials }) => {
      const value = { user: randomUUID(), password: await hashPassword(password) };
      const outcome = await accounts.write(everyone, name, { when: 'absent', value });
      if (outcome !== 'inserted') throw new ApiError(loginErrors.nameTaken);
    },
    logIn: async ({ body: { name, password } }: { body: Credentials }) => {
      const account = await begin(name);
      const isRight = await isPassword(password, account?.password);
      if (account === undefined || !isRight) throw new ApiError(loginErrors.wrongLogin);
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
