// Writes schemas of the normal form for Ajv.
import type { AnySchema } from 'ajv';
import { isNothing, mapSchemas, partsOf, type Schema } from '../../../contract/schema/schema.js';
import { withoutAbsent } from './applied.js';
import { createChoice } from './choice.js';
import { createReference, ownKeywords, type Check } from './keywords.js';
import { createNumericCheck, isNumeric } from './numbers.js';
import type { At, Verdict } from './verdict.js';

/** The keywords that Ajv gets as they are. */
const plainKeywords = [
  ...(['enum', 'format', 'pattern', 'minLength', 'maxLength'] as const),
  ...(['minItems', 'maxItems', 'minProperties', 'maxProperties'] as const),
];

/** Keywords whose schemas Ajv applies, and those whose schemas our keywords judge by themselves. */
const inlineKeywords = [
  ...(['properties', 'patternProperties', 'additionalProperties', 'items', 'prefixItems'] as const),
  ...(['allOf', 'dependentSchemas'] as const),
];
const judgedKeywords = [
  ...(['anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'] as const),
  ...(['unevaluatedItems', 'unevaluatedProperties'] as const),
];

/** A schema of the normal form as Ajv gets it, and those inside that are to be compiled by themselves. */
export class WrittenSchema {
  readonly schema: AnySchema;
  readonly separate: Schema[] = [];

  constructor(schema: Schema) {
    this.schema = this.#write(schema);
  }

  /**
   * Writes a schema in JSON Schema draft 7, which Ajv validates fastest. Our checks are in
   * functions that return them, since Ajv walks through everything else.
   */
  #write(given: Schema): AnySchema {
    if (isNothing(given)) return false;
    const schema = withoutAbsent(given);
    const within = (part: Schema) => {
      // A part with parts of its own is compiled once, so that the effort grows only with the contract.
      if (partsOf(part).every((inner) => partsOf(inner).length === 0)) return this.#write(part);
      this.separate.push(part);
      return { checks: () => inOrder([createReference(part)]) };
    };
    this.separate.push(...partsOf(schema, judgedKeywords));
    const checks = this.#checksOf(schema);
    const { items, prefixItems, dependentSchemas, ...written } = mapSchemas(schema, inlineKeywords, within);
    if (items !== undefined) written[prefixItems === undefined ? 'items' : 'additionalItems'] = items;
    if (prefixItems !== undefined) written['items'] = prefixItems;
    if (dependentSchemas !== undefined) written['dependencies'] = dependentSchemas;
    if (checks.length > 0) written['checks'] = () => inOrder(checks);
    if (schema.binary) return written;
    for (const keyword of plainKeywords)
      if (schema[keyword] !== undefined) written[keyword] = schema[keyword];
    if (schema.type !== undefined && !isNumeric(schema)) written['type'] = schema.type;
    return written;
  }

  #checksOf(schema: Schema): Check[] {
    const keywords = Object.entries(ownKeywords).filter(
      ([keyword]) => schema[keyword as keyof Schema] !== undefined,
    );
    const choices = (['anyOf', 'oneOf'] as const).flatMap((keyword) => {
      const alternatives = schema[keyword];
      return alternatives === undefined ? [] : [createChoice(keyword, alternatives)];
    });
    this.separate.push(...choices.map(({ common }) => common));
    return [
      ...keywords.map(([, create]) => create(schema)),
      ...choices.map(({ check }) => check),
      ...(isNumeric(schema) ? [createNumericCheck(schema)] : []),
    ];
  }
}

/** The form that Ajv needs of checks, for which no value is wrong: the verdict has the faults. */
function inOrder(checks: readonly Check[]) {
  return function (this: Verdict, data: unknown, { instancePath }: At): true {
    for (const check of checks) check.call(this, data, instancePath);
    return true;
  };
}
