// Loads a contract, and reports wrong defaults together with its other faults.
import { loadContract, type Contract } from '../contract/contract.js';
import { ContractError, inOrder } from '../contract/contract-text.js';
import { Compiler, findWrongDefaults } from './request/validation.js';

/**
 * Loads a contract, as `loadContract` does.
 * @throws ContractError with all faults. A contract whose only faults are wrong defaults is loaded: routes refuse them.
 */
export function loadChecked(bytes: Buffer, hasOwnErrors: boolean): Contract {
  try {
    return loadContract(bytes, hasOwnErrors);
  } catch (error) {
    if (!(error instanceof ContractError) || error.unchecked === undefined) throw error;
    const { faults, warnings, unchecked } = error;
    const wrong = findWrongDefaults(new Compiler(unchecked.document), unchecked.defaults);
    throw new ContractError(inOrder([...faults, ...wrong]), warnings);
  }
}
