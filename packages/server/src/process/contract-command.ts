// The command "contract check": reports everything that the server would say about a contract.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { ConfigError } from '../config.js';
import { loadContract } from '../contract/contract.js';
import { ContractError, formatFinding, type Finding } from '../contract/contract-text.js';
import { Compiler, findWrongDefaults } from '../http/request/validation.js';
import type { Service } from '../definition.js';

/** Adds the command to the program of a service. */
export function addContractCommand(program: Command, service: Service): void {
  program
    .command('contract')
    .description('check a contract without a server')
    .command('check')
    .description('list all faults and warnings of an OpenAPI document; exit with 1 if there are faults')
    .argument('[file]', `OpenAPI 3.0 or 3.1, in YAML or JSON (default: the contract of ${service.name})`)
    .option('--strict', 'also exit with 1 if there are warnings')
    .option('--json', 'print the result as JSON to standard output')
    .action((given: string | undefined, { strict, json }: { strict?: true; json?: true }) => {
      const file = given ?? relative('', fileURLToPath(service.contract));
      const { faults, warnings } = check(file, service.renderError !== undefined);
      if (json) console.log(JSON.stringify({ faults, warnings }, undefined, 2));
      else printFindings(file, faults, warnings);
      if (faults.length > 0 || (strict && warnings.length > 0)) process.exitCode = 1;
    });
}

interface Findings {
  readonly faults: readonly Finding[];
  readonly warnings: readonly Finding[];
}

/** @throws ConfigError if the file cannot be read. */
function check(file: string, hasOwnErrors: boolean): Findings {
  try {
    const { document, defaults, warnings } = loadContract(readFileSync(file), hasOwnErrors);
    return { faults: findWrongDefaults(new Compiler(document), defaults), warnings };
  } catch (error) {
    if (error instanceof ContractError) return error;
    if (error instanceof Error && 'syscall' in error) throw new ConfigError(error.message);
    throw error;
  }
}

function printFindings(file: string, faults: readonly Finding[], warnings: readonly Finding[]): void {
  const print = (kind: string) => (finding: Finding) => {
    console.log(`${file}:${formatFinding(finding).replace(' ', ` ${kind}: `)}`);
  };
  faults.forEach(print('error'));
  warnings.forEach(print('warning'));
  const count = (list: readonly Finding[], name: string) =>
    `${list.length} ${name}${list.length === 1 ? '' : 's'}`;
  console.error(`${count(faults, 'error')}, ${count(warnings, 'warning')}.`);
}
