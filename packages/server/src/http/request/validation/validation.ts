// Validates requests and responses against the contract's schemas, and reads the values of requests.
import { listedFaults } from '../../../base/errors.js';
import type { Finding } from '../../../contract/document/finding.js';
import type { Sample, Schema } from '../../../contract/schema/schema.js';
import { Completion } from './completion.js';
import { textOf, type Fault, type ValueSource } from './fault-messages.js';
import { Judge } from './judge.js';
import { planOf } from './keywords.js';

/** A value that has been validated; it means nothing if it has faults: at most one more than are listed. */
interface Validated {
  readonly value: unknown;
  readonly faults: readonly Fault[];
}

/**
 * Validates a value from a client, and turns it into what handlers expect, in place as far as it is an object or array.
 * @param source - Whether it is JSON, or texts that have been read.
 */
export function readValue(schema: Schema, data: unknown, source: ValueSource): Validated {
  return validate(schema, data, source, [schema]);
}

/** Returns the faults of a value that a handler or the contract has; none if it is valid. */
export function faultsOf(schema: Schema, data: unknown): readonly Fault[] {
  return validate(schema, data, 'json', []).faults;
}

/** @param completed - The schemas by which the value is completed. */
function validate(
  schema: Schema,
  data: unknown,
  source: ValueSource,
  completed: readonly Schema[],
): Validated {
  const owner = { value: data };
  const at = { owner, key: 'value', outer: undefined };
  const judge = new Judge(planOf, source);
  const faults = judge.judge(schema, data, at);
  const completion = new Completion(judge, faults.length === 0);
  completion.complete(completed, at);
  return { value: owner.value, faults: withUnkept(faults, completion.faults) };
}

/** The faults of a value, each once, and those of what cannot be kept, unless it is wrong anyway. */
function withUnkept(faults: readonly Fault[], unkept: readonly Fault[]): readonly Fault[] {
  if (faults.length === 0 && unkept.length === 0) return faults;
  const isTold = ({ path }: Fault) => faults.some((other) => `${path}/`.startsWith(`${other.path}/`));
  const all = [...faults, ...unkept.filter((fault) => !isTold(fault))];
  const distinct = new Map(all.map((fault) => [`${fault.path} ${fault.message}`, fault]));
  return [...distinct.values()].slice(0, listedFaults + 1);
}

/** Describes all faults of a response; undefined if it is valid. */
export function responseFault(schema: Schema, data: unknown): string | undefined {
  return textOf(faultsOf(schema, data)) || undefined;
}

/** Finds the defaults that their schemas do not allow: they would be filled in without a check. */
export function findWrongDefaults(defaults: readonly Sample[]): Finding[] {
  return defaults.flatMap(({ schema, value, node }) => {
    const fault = textOf(faultsOf(schema, value));
    if (fault === '') return [];
    return node.find(
      `the default does not match its schema: ${fault}`,
      'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
    );
  });
}
