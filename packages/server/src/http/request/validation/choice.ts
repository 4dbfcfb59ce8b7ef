// Checks alternatives: the keyword `choice` of Ajv, in place of anyOf and oneOf, which validates each alternative once.
import type { ErrorObject, ValidateFunction } from 'ajv';
import { isOfType, type TypeName } from '../../../contract/schema/json-types.js';
import { pointerOf } from '../../../contract/document/finding.js';
import type { At, Verdicts } from './verdicts.js';

/** Features that distinguish an alternative from others at a glance. */
export interface Guard {
  readonly types?: readonly TypeName[];
  /** The texts that properties must have, such as those that discriminate. */
  readonly fixed: Readonly<Record<string, readonly string[]>>;
}

/** Alternatives, by the names of their schemas. */
export interface ChoiceRule {
  readonly keyword: 'anyOf' | 'oneOf';
  readonly names: readonly string[];
  readonly guards: readonly Guard[];
}

/** Finds a compiled schema by its name. */
export type FindSchema = (name: string) => ValidateFunction;

/** Compiles `choice`, whose value is the groups of alternatives of a schema. */
export function compileChoice(groups: readonly ChoiceRule[], find: FindSchema) {
  return function (this: Verdicts, data: unknown, at?: At): boolean {
    return groups.every((rule) => {
      const most = rule.keyword === 'oneOf' ? 2 : 1;
      return matching(rule, data, this, find, most, at).length === 1;
    });
  };
}

/** The first alternatives that a value matches. @param most - The maximum number to find. */
function matching(
  { names, guards }: ChoiceRule,
  data: unknown,
  verdicts: Verdicts,
  find: FindSchema,
  most: number,
  at?: At,
): number[] {
  const found: number[] = [];
  for (const [i, name] of names.entries()) {
    if (!fits(guards[i]!, data) || !verdicts.holds(find(name), data, at)) continue;
    if (found.push(i) === most) break;
  }
  return found;
}

function fits({ types, fixed }: Guard, data: unknown): boolean {
  if (!hasType(data, types)) return false;
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return true;
  return Object.entries(fixed).every(([name, texts]) => texts.includes(textAt(data, name)));
}

/** Whether a value can be of one of these types: a number may be one that JavaScript does not have. */
function hasType(data: unknown, types: readonly TypeName[] | undefined): boolean {
  if (types === undefined || isOfType(data, types) || ArrayBuffer.isView(data)) return true;
  return ['number', 'bigint', 'symbol'].includes(typeof data) && /integer|number/.test(types.join());
}

function textAt(data: object, name: string): string {
  return Object.hasOwn(data, name) ? String((data as Record<string, unknown>)[name]) : '';
}

/** Describes a value that does not match the alternatives: errors of Ajv, or of its own form. */
export function choiceErrors(
  error: ErrorObject,
  verdicts: Verdicts,
  find: FindSchema,
): Partial<ErrorObject>[] {
  const { data, instancePath } = error;
  return (error.schema as readonly ChoiceRule[]).flatMap((rule) => {
    const { keyword, names, guards } = rule;
    const found = matching(rule, data, verdicts, find, names.length);
    if (found.length === 1 || (found.length > 1 && keyword === 'anyOf')) return [];
    if (found.length > 1) return [{ keyword, params: { passingSchemas: found } }];
    const candidates = guards.flatMap((guard, i) => (fits(guard, data) ? [i] : []));
    const [only, ...others] = candidates;
    if (only !== undefined && others.length === 0)
      return [...(verdicts.errorsOf(find(names[only]!), data, { instancePath } as At) ?? [])];
    return only === undefined
      ? guardErrors(guards, data, error)
      : [{ keyword, params: { passingSchemas: null } }];
  });
}

/** Describes a value that no alternative can have: the type, or the property that distinguishes them. */
function guardErrors(
  guards: readonly Guard[],
  data: unknown,
  { instancePath }: ErrorObject,
): Partial<ErrorObject>[] {
  const ofType = guards.filter(({ types }) => hasType(data, types));
  if (ofType.length === 0) {
    const types = [...new Set(guards.flatMap(({ types: some = [] }) => some))];
    return [{ keyword: 'type', params: { type: types } }];
  }
  const object = data as object;
  const name = Object.keys(ofType[0]!.fixed).find((one) => {
    const texts = ofType.map(({ fixed }) => fixed[one]);
    return texts.every((some) => some !== undefined) && !texts.flat().includes(textAt(object, one));
  });
  if (name === undefined) return [{ keyword: 'anyOf', params: {} }];
  if (!Object.hasOwn(object, name)) return [{ keyword: 'required', params: { missingProperty: name } }];
  const allowedValues = [...new Set(ofType.flatMap(({ fixed }) => fixed[name]!))];
  return [{ keyword: 'enum', instancePath: instancePath + pointerOf([name]), params: { allowedValues } }];
}
