// Finds the account of a request, for resources that callers share: its caller, or the network that it comes from.
import type { FastifyRequest } from 'fastify';
import { addressOf, networkOf } from '../headers/client-address.js';

/** Marks the accounts of networks; no subject begins with it. */
const mark = '\0';

/** Returns the subject of a request's caller; without accepted credentials, a text that stands for its network. */
export function accountOf(request: FastifyRequest): string {
  return request.caller?.subject ?? `${mark}${networkOf(addressOf(request))}`;
}

/** Whether an account is that of a network. */
export function isAnonymous(account: string): boolean {
  return account.startsWith(mark);
}
