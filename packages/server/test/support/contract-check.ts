// The contract of the Plant Store, and the check that every response of every test passes.
import { readFileSync } from 'node:fs';
import { service } from '../../../../dist/service.js';
import { loadContract } from '../../dist/contract/contract.js';
import { responseCheck } from '../../dist/testing/response-check.js';

export type { HttpResponse } from '../../dist/testing/response-check.js';

export const contract = loadContract(readFileSync(service.contract));
export const checkResponse = responseCheck(contract, service);
