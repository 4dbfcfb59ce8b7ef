// Finds schemas that no value can tell apart from others: what they say of a value is compared keyword by keyword.
import { isAnything, isNothing, resolve, type Schema } from './schema.js';

/** How deeply properties and items are compared. */
const maxDepth = 5;

/** Whether every value that fits one schema also fits another, as far as that follows from their keywords. */
export function covers(outer: Schema, inner: Schema, depth = 0): boolean {
  const [wide, narrow] = [resolve(outer), resolve(inner)];
  if (wide === narrow || isAnything(wide)) return true;
  if (depth > maxDepth || wide.refused !== narrow.refused) return false;
  const inside = (a: Schema, b: Schema) => covers(a, b, depth + 1);
  if (narrow.allOf?.some((part) => inside(wide, part))) return true;
  if ((narrow.anyOf ?? narrow.oneOf)?.every((part) => inside(wide, part))) return true;
  return (Object.keys(wide) as (keyof Schema)[]).every((keyword) => implies(wide, narrow, keyword, inside));
}

/** Whether what one schema says by a keyword follows from another one. */
function implies(
  wide: Schema,
  narrow: Schema,
  keyword: keyof Schema,
  inside: (wide: Schema, narrow: Schema) => boolean,
): boolean {
  const isClosed = narrow.additionalProperties !== undefined && isNothing(narrow.additionalProperties);
  const names = Object.keys(narrow.properties ?? {});
  const isAmong = <Value>(values: readonly Value[] = [], others: readonly Value[] | undefined) =>
    others?.every((value) => values.includes(value)) === true;
  switch (keyword) {
    case 'shape':
    case 'default':
    case 'refused':
      return true;
    case 'type':
      return isAmong([...wide.type!, ...(wide.type!.includes('number') ? ['integer'] : [])], narrow.type);
    case 'number':
      return wide.number === 'double' || wide.number === narrow.number || narrow.number === 'integer';
    case 'enum':
      return isAmong(wide.enum, narrow.enum);
    case 'required':
      return isAmong(narrow.required, wide.required);
    case 'allOf':
      return wide.allOf!.every((part) => inside(part, narrow));
    case 'anyOf':
      return wide.anyOf!.some((part) => inside(part, narrow));
    case 'items':
      return narrow.items !== undefined && inside(wide.items!, narrow.items);
    case 'properties':
      return Object.entries(wide.properties!).every(([name, part]) =>
        names.includes(name)
          ? inside(part, narrow.properties![name]!)
          : isClosed && !narrow.patternProperties,
      );
    case 'additionalProperties':
      return isClosed && !narrow.patternProperties && isAmong(Object.keys(wide.properties ?? {}), names);
    case 'minimum':
    case 'minLength':
    case 'minItems':
    case 'minProperties':
      return (narrow[keyword] ?? -Infinity) >= wide[keyword]!;
    case 'maximum':
    case 'maxLength':
    case 'maxItems':
    case 'maxProperties':
      return (narrow[keyword] ?? Infinity) <= wide[keyword]!;
    default:
      return wide[keyword] === narrow[keyword];
  }
}
