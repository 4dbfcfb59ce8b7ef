// How tests read contracts, and get what the command writes about them: hundreds in one process, where `check`, `types` and
// `new` would be started for each.
export { loadContract, type Contract } from '../../dist/contract/contract.js';
export { ContractError, formatFinding, type Finding } from '../../dist/contract/document/finding.js';
export { renderTypes } from '../../dist/cli/types.js';
export { findErrorForm } from '../../dist/cli/error-form.js';
export { filesOf, type Manifest } from '../../dist/cli/new-files.js';
