// Evaluates JSON Schema 2020-12 as the specification says, keyword by keyword, to compare validators with.
import { typeOf } from '../../dist/contract/schema/json-types.js';

type Keywords = Readonly<Record<string, unknown>>;
/** The names and the indexes that the schema of a valid value has evaluated (core, section 11); undefined if it is not valid. */
type Evaluated = ReadonlySet<string | number> | undefined;

/**
 * Evaluates a value.
 * @param all - The schemas that `$ref` may refer to, by the last step of the reference.
 */
export function evaluate(schema: unknown, value: unknown, all: Keywords): Evaluated {
  if (typeof schema === 'boolean') return schema ? new Set() : undefined;
  const given = schema as Keywords;
  const evaluated = new Set<string | number>();
  const accepts = (part: unknown, to: unknown) => evaluate(part, to, all) !== undefined;
  /** Applies a schema to the value itself. */
  const take = (part: unknown) => {
    const result = evaluate(part, value, all);
    for (const key of result ?? []) evaluated.add(key);
    return result !== undefined;
  };
  /** Applies a schema to a part of the value. */
  const inside = (part: unknown, key: string | number) => {
    evaluated.add(key);
    return accepts(part, (value as Keywords)[key]);
  };
  const list = (keyword: string) => (given[keyword] ?? []) as unknown[];
  const named = (keyword: string) => Object.entries((given[keyword] ?? {}) as Keywords);
  const taken = (keyword: string) => list(keyword).map(take).filter(Boolean).length;
  const branch = () => take(given[take(given['if']) ? 'then' : 'else'] ?? true);

  const holds = [
    acceptsScalar(given, value),
    !('$ref' in given) || take(all[String(given['$ref']).split('/').at(-1)!]),
    taken('allOf') === list('allOf').length,
    !('anyOf' in given) || taken('anyOf') > 0,
    !('oneOf' in given) || taken('oneOf') === 1,
    !('not' in given) || !accepts(given['not'], value),
    !('if' in given) || branch(),
  ];
  if (Array.isArray(value)) {
    const from = list('prefixItems').length;
    const found = value.flatMap((item, i) =>
      'contains' in given && accepts(given['contains'], item) ? [i] : [],
    );
    holds.push(
      within(given, 'Items', value.length),
      list('prefixItems').every((part, i) => i >= value.length || inside(part, i)),
      value.every((_, i) => i < from || !('items' in given) || inside(given['items'], i)),
      !('contains' in given) || within({ minContains: 1, ...given }, 'Contains', found.length),
    );
    for (const i of found) evaluated.add(i);
    const others = [...value.keys()].filter((i) => !evaluated.has(i));
    holds.push(others.every((i) => !('unevaluatedItems' in given) || inside(given['unevaluatedItems'], i)));
  } else if (typeOf(value) === 'object') {
    const names = Object.keys(value as object);
    const patterns = named('patternProperties').map(
      ([pattern, part]) => [new RegExp(pattern, 'u'), part] as const,
    );
    const isNamed = (name: string) =>
      named('properties').some(([one]) => one === name) || patterns.some(([pattern]) => pattern.test(name));
    holds.push(
      within(given, 'Properties', names.length),
      list('required').every((name) => names.includes(name as string)),
      named('dependentRequired').every(
        ([name, needed]) => !names.includes(name) || (needed as string[]).every((one) => names.includes(one)),
      ),
      named('dependentSchemas').every(([name, part]) => !names.includes(name) || take(part)),
      named('properties').every(([name, part]) => !names.includes(name) || inside(part, name)),
      patterns.every(([pattern, part]) => names.every((name) => !pattern.test(name) || inside(part, name))),
      names.every(
        (name) =>
          isNamed(name) || !('additionalProperties' in given) || inside(given['additionalProperties'], name),
      ),
      names.every((name) => !('propertyNames' in given) || accepts(given['propertyNames'], name)),
    );
    const others = names.filter((name) => !evaluated.has(name));
    holds.push(
      others.every(
        (name) => !('unevaluatedProperties' in given) || inside(given['unevaluatedProperties'], name),
      ),
    );
  }
  return holds.every(Boolean) ? evaluated : undefined;
}

interface Limits {
  minimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  pattern?: string;
}

/** Evaluates the keywords without schemas inside. */
function acceptsScalar(given: Keywords, value: unknown): boolean {
  const { minimum = -Infinity, exclusiveMaximum = Infinity, multipleOf, pattern } = given as Limits;
  const types = [given['type'] ?? typeOf(value)].flat();
  const isInteger = Number.isInteger(value) && types.includes('integer');
  const values = 'const' in given ? [given['const']] : ((given['enum'] as unknown[] | undefined) ?? [value]);
  if ((!types.includes(typeOf(value)) && !isInteger) || !values.includes(value)) return false;
  if (typeof value === 'number')
    return (
      value >= minimum &&
      value < exclusiveMaximum &&
      (multipleOf === undefined || Number.isInteger(value / multipleOf))
    );
  if (typeof value !== 'string') return true;
  return (
    within(given, 'Length', value.length) && (pattern === undefined || new RegExp(pattern, 'u').test(value))
  );
}

function within(given: Keywords, what: string, count: number): boolean {
  return (
    count >= ((given[`min${what}`] ?? 0) as number) && count <= ((given[`max${what}`] ?? Infinity) as number)
  );
}
