// Contracts of tests: that of the Plant Store, whose check every response of every test passes, and others.
import { readFileSync } from 'node:fs';
import { service } from '../../../../dist/service.js';
import { loadContract, type Contract } from '../../dist/contract/contract.js';
import { responseCheck } from '../../dist/testing/response-check.js';

export type { HttpResponse } from '../../dist/testing/response-check.js';

export { responseCheck };

/** Loads a contract from its document, or from the text of one. */
export const contractOf = (document: object | string): Contract =>
  loadContract(Buffer.from(typeof document === 'string' ? document : JSON.stringify(document)));

export const contract = loadContract(readFileSync(service.contract));
export const checkResponse = responseCheck(contract, service);
