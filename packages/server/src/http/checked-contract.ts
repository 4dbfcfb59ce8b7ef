// Loads a contract, and reports wrong defaults together with its other faults.
import { loadContract, type Contract } from '../contract/contract.js';
import { Compiler, findWrongDefaults } from './request/validation/validation.js';

/**
 * Loads a contract, as `loadContract` does.
 * @throws ContractError with all faults. A contract whose only faults are wrong defaults is loaded: routes refuse them.
 */
export function loadChecked(bytes: Buffer, hasOwnErrors: boolean): Contract {
  return loadContract(bytes, hasOwnErrors, (defaults) => findWrongDefaults(new Compiler(), defaults));
}
