// Checks alternatives, in place of Ajv's anyOf and oneOf: those that cannot match at a glance are not tried.
import { pointerOf } from '../../../contract/document/finding.js';
import { isOfType, type TypeName } from '../../../contract/schema/json-types.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { allSchemas } from '../../../contract/schema/schema.js';
import { shapeOf } from '../../../contract/schema/shape.js';
import { shown, typeMessage } from './fault-messages.js';
import type { At, Verdict } from './verdicts.js';

/** An alternative with the features that distinguish it from others at a glance. */
interface Alternative {
  readonly schema: Schema;
  readonly types: readonly TypeName[] | undefined;
  /** The texts that properties must have, such as those that discriminate. */
  readonly fixed: Readonly<Record<string, readonly string[]>>;
}

/** Creates the check of alternatives: what those say that match applies to the value. */
export function createChoiceCheck(keyword: 'anyOf' | 'oneOf', schemas: readonly Schema[]) {
  const alternatives = schemas.map(alternativeOf);
  return function (this: Verdict, data: unknown, at: At): void {
    const fitting = alternatives.filter((alternative) => fits(alternative, data));
    const verdicts = fitting.map(({ schema }) => this.judge(schema, data, at));
    const matching = verdicts.filter(({ isValid }) => isValid);
    const [only] = verdicts;
    if (matching.length > 1 && keyword === 'oneOf') {
      const numbers = fitting.flatMap((one, i) =>
        verdicts[i]!.isValid ? alternatives.indexOf(one) + 1 : [],
      );
      const message = `matches the alternatives ${numbers.join(' and ')}, and must match only one`;
      this.refuse(at, data, keyword, message);
    } else if (matching.length > 0) for (const verdict of matching) this.accept(verdict, data);
    else if (only === undefined) refuseAll(this, alternatives, data, at);
    else if (verdicts.length === 1) this.accept(only, data);
    else this.refuse(at, data, keyword, 'must match one of the alternatives');
  };
}

function alternativeOf(schema: Schema): Alternative {
  const together = [...allSchemas(schema, ['allOf'])];
  const required = together.flatMap((part) => part.required ?? []);
  const fixed: Record<string, readonly string[]> = {};
  for (const { properties = {} } of together)
    for (const [name, { enum: values }] of Object.entries(properties))
      if (required.includes(name) && values?.every((value) => typeof value === 'string'))
        fixed[name] = values.filter((value) => fixed[name]?.includes(value) ?? true);
  const { types, binary } = shapeOf(schema);
  return { schema, fixed, types: binary ? undefined : types };
}

function fits({ types, fixed }: Alternative, data: unknown): boolean {
  if (!hasType(data, types)) return false;
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return true;
  return Object.entries(fixed).every(([name, texts]) => texts.includes(textAt(data, name)));
}

/** Whether a value can be of one of these types: a number may be one that JavaScript does not have. */
function hasType(data: unknown, types: readonly TypeName[] | undefined): boolean {
  if (types === undefined || isOfType(data, types)) return true;
  return ['number', 'bigint', 'symbol'].includes(typeof data) && /integer|number/.test(types.join());
}

function textAt(data: object, name: string): string {
  return Object.hasOwn(data, name) ? String((data as Record<string, unknown>)[name]) : '';
}

/** Refuses a value that no alternative can have: names the type, or the property that distinguishes them. */
function refuseAll(verdict: Verdict, alternatives: readonly Alternative[], data: unknown, at: At): void {
  const ofType = alternatives.filter(({ types }) => hasType(data, types));
  if (ofType.length === 0) {
    const types = [...new Set(alternatives.flatMap((alternative) => alternative.types ?? []))];
    verdict.refuse(at, data, 'type', typeMessage(types, data, verdict.validation.source), types);
    return;
  }
  const object = data as object;
  const name = Object.keys(ofType[0]!.fixed).find((property) => {
    const texts = ofType.map(({ fixed }) => fixed[property]);
    return texts.every((some) => some !== undefined) && !texts.flat().includes(textAt(object, property));
  });
  if (name === undefined) {
    verdict.refuse(at, data, 'anyOf', 'must match one of the alternatives');
    return;
  }
  const values = [...new Set(ofType.flatMap(({ fixed }) => fixed[name]!))];
  const path = at.instancePath + pointerOf([name]);
  if (Object.hasOwn(object, name))
    verdict.add({
      path,
      rule: 'enum',
      expected: values,
      message: `must be one of ${values.map(shown).join(', ')}`,
    });
  else verdict.add({ path, rule: 'required', message: 'is missing' });
}
