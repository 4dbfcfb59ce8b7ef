// A file of packages/server/docs/login.md, written by "npm run generate"; do not edit.
// Passwords, as they are stored and compared: by scrypt, on threads of Node.js that answer no requests.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../../../dist/index.js';

/** 32 MiB for each password. */
const cost = { N: 2 ** 15, r: 8, p: 3, maxmem: 64 * 1024 * 1024 };
/** Node.js has four such threads, which it also needs for files and names of hosts. */
const mostRunning = 2;
const mostWaiting = 20;

let running = 0;
const waiting: (() => void)[] = [];

/** Returns what is stored of a password. @throws ApiError 503 if too many others wait. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  return `${salt.toString('base64url')}.${(await derive(password, salt)).toString('base64url')}`;
}

/** Whether a password is the stored one. Takes as long if nothing is stored. @throws ApiError as hashPassword does. */
export async function isPassword(password: string, stored: string | undefined): Promise<boolean> {
  const [salt = '', key = ''] = (stored ?? nobody).split('.');
  const given = await derive(password, Buffer.from(salt, 'base64url'));
  return timingSafeEqual(given, Buffer.from(key, 'base64url')) && stored !== undefined;
}

const nobody = `${'A'.repeat(22)}.${'A'.repeat(43)}`;

async function derive(password: string, salt: Buffer): Promise<Buffer> {
  if (running < mostRunning) running++;
  else if (waiting.length >= mostWaiting) throw new ApiError('overloaded');
  // The one before leaves its place to this one.
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await new Promise((resolve, reject) => {
      scrypt(password.normalize('NFKC'), salt, 32, cost, (error, key) => {
        if (error) reject(error);
        else resolve(key);
      });
    });
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running--;
  }
}
