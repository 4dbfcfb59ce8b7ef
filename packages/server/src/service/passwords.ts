// Passwords, as they are stored and compared: by scrypt, on threads of Node.js that answer no requests.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../base/errors.js';

/** 32 MiB for each password. Only tests change it, to a lower cost. */
export const cost = { N: 2 ** 15, r: 8, p: 3, maxmem: 64 * 1024 * 1024 };

/**
 * A queue for work such as the comparison of passwords. Networks take turns, and in a full queue, the network with the
 * most work makes room for others.
 */
export class FairQueue {
  readonly #waiting = new Map<string, { start: () => void; refuse: (error: ApiError) => void }[]>();
  #free: number;
  readonly #mostWaiting: number;

  /**
   * @param free - The number of works that may run at a time.
   * @param mostWaiting - The number of further ones that may wait.
   */
  constructor(free: number, mostWaiting: number) {
    this.#free = free;
    this.#mostWaiting = mostWaiting;
  }

  /** Does work when it is the turn of its network, as networkOf has it. @throws ApiError 503 if too many others wait. */
  async run<Result>(network: string, work: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free--;
    else await this.#wait(network);
    try {
      return await work();
    } finally {
      // The next one takes this place.
      const next = this.#next();
      if (next) next.start();
      else this.#free++;
    }
  }

  #wait(network: string): Promise<void> {
    const neighbors = this.#waiting.get(network) ?? [];
    const queues = [...this.#waiting.values()];
    if (queues.flat().length >= this.#mostWaiting) {
      const longest = queues.reduce((longer, queue) => (queue.length > longer.length ? queue : longer));
      if (longest.length <= neighbors.length + 1) throw new ApiError('overloaded');
      longest.pop()?.refuse(new ApiError('overloaded'));
    }
    return new Promise((start, refuse) => {
      neighbors.push({ start, refuse });
      this.#waiting.set(network, neighbors);
    });
  }

  #next() {
    for (const [network, queue] of this.#waiting) {
      this.#waiting.delete(network);
      const next = queue.shift();
      if (queue.length > 0) this.#waiting.set(network, queue);
      return next;
    }
    return undefined;
  }
}

/** Returns what is stored of a password. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  return `${salt.toString('base64url')}.${(await derive(password, salt)).toString('base64url')}`;
}

/** Whether a password is the stored one. Takes as long if nothing is stored. */
export async function isPassword(password: string, stored: string | undefined): Promise<boolean> {
  const [salt = '', key = ''] = (stored ?? nobody).split('.');
  const derived = await derive(password, Buffer.from(salt, 'base64url'));
  return timingSafeEqual(derived, Buffer.from(key, 'base64url')) && stored !== undefined;
}

const nobody = `${'A'.repeat(22)}.${'A'.repeat(43)}`;

function derive(password: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, 32, cost, (error, key) => {
      if (error) reject(error);
      else resolve(key);
    });
  });
}
