// Checks alternatives, in place of Ajv's anyOf and oneOf: those that cannot match at a glance are not tried.
import { isOfType, type TypeName } from '../../../contract/schema/json-types.js';
import { allSchemas, type Schema } from '../../../contract/schema/schema.js';
import { shapeOf } from '../../../contract/schema/shape.js';
import type { Verdict } from './verdict.js';

type Texts = readonly string[];

/** What a schema asks for at a glance. */
interface Glance {
  readonly types: readonly TypeName[] | undefined;
  /** The texts that properties must have, such as those that discriminate. */
  readonly fixed: ReadonlyMap<string, Texts>;
}

const glances = new WeakMap<Schema, Glance>();

function glanceOf(schema: Schema): Glance {
  let glance = glances.get(schema);
  if (glance === undefined) {
    const { types, binary } = shapeOf(schema);
    glances.set(schema, (glance = { types: binary ? undefined : types, fixed: fixedTexts(schema) }));
  }
  return glance;
}

/** Whether a value may match a schema, at a glance. */
export function fits(schema: Schema, data: unknown): boolean {
  const { types, fixed } = glanceOf(schema);
  return hasType(data, types) && [...fixed].every((entry) => hasText(data, ...entry));
}

/** The check of alternatives, and a schema with what they have in common, which is to be compiled by itself. */
export interface Choice {
  readonly check: (this: Verdict, data: unknown, path: string) => void;
  readonly common: Schema;
}

/** Creates the check of alternatives: if none matches, the faults are those of the only one that may match. */
export function createChoice(keyword: 'anyOf' | 'oneOf', alternatives: readonly Schema[]): Choice {
  const common = commonOf(alternatives.map(glanceOf));
  const check = function (this: Verdict, data: unknown, path: string) {
    const fitting = alternatives.filter((schema) => fits(schema, data));
    const verdicts = fitting.map((schema) => this.judge(schema, data, path));
    const matching = fitting.filter((_, i) => verdicts[i]!.isValid);
    const [only = this.judge(common, data, path)] = verdicts;
    if (matching.length > 1 && keyword === 'oneOf') {
      const numbers = matching.map((alternative) => alternatives.indexOf(alternative) + 1);
      const message = `matches the alternatives ${numbers.join(' and ')}, and must match only one`;
      this.refuse(path, data, keyword, message);
    } else if (matching.length === 0) {
      if (verdicts.length < 2 && !only.isValid) this.accept(only);
      else this.refuse(path, data, keyword, 'must match one of the alternatives');
    }
  };
  return { check, common };
}

/** The requirements that all alternatives share: they say what is wrong with a value that fits none at a glance. */
function commonOf(alternatives: readonly Glance[]): Schema {
  const types = alternatives.map((alternative) => alternative.types);
  const ofObjects = alternatives.filter((alternative) => alternative.types?.includes('object') ?? true);
  const [first, ...others] = ofObjects.map(({ fixed }) => fixed);
  const name = [...(first?.keys() ?? [])].find((key) => others.every((fixed) => fixed.has(key)));
  const texts = new Set(ofObjects.flatMap(({ fixed }) => (name === undefined ? [] : fixed.get(name)!)));
  return {
    ...(!types.includes(undefined) && { type: [...new Set(types.flat() as TypeName[])] }),
    ...(name !== undefined && { required: [name], properties: { [name]: { enum: [...texts] } } }),
  };
}

/** The texts that properties of an object must have, such as those that discriminate. */
function fixedTexts(schema: Schema): Map<string, Texts> {
  const together = [...allSchemas(schema, ['allOf'])];
  const required = new Set(together.flatMap((part) => part.required ?? []));
  const fixed = new Map<string, Texts>();
  for (const { properties = {} } of together)
    for (const [name, { enum: values }] of Object.entries(properties))
      if (required.has(name) && values?.every((value) => typeof value === 'string'))
        fixed.set(
          name,
          values.filter((value) => fixed.get(name)?.includes(value) ?? true),
        );
  return fixed;
}

/** Whether a value can be of one of these types: a number may be one that JavaScript does not have. */
function hasType(data: unknown, types: readonly TypeName[] | undefined): boolean {
  if (types === undefined || isOfType(data, types)) return true;
  return ['number', 'bigint', 'symbol'].includes(typeof data) && /integer|number/.test(types.join());
}

/** Whether a value is no object, or has one of these texts as a property. */
function hasText(data: unknown, name: string, texts: Texts): boolean {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return true;
  return Object.hasOwn(data, name) && texts.includes(String((data as Record<string, unknown>)[name]));
}
