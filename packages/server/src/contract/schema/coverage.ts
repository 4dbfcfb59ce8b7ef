// Finds schemas whose values all fit another one, as far as their keywords show.
import { isAnything, type Schema } from './schema.js';

/** How deeply properties and items are compared. */
const maxDepth = 5;

/** Whether every value that fits one schema also fits another. */
export function covers(wide: Schema, narrow: Schema, depth = 0): boolean {
  if (wide === narrow || isAnything(wide)) return true;
  if (depth > maxDepth) return false;
  const inside = (one: Schema, other: Schema | undefined) =>
    other !== undefined && covers(one, other, depth + 1);
  if (narrow.allOf?.some((part) => inside(wide, part))) return true;
  const { type, enum: values, required = [], properties = {}, items, allOf = [] } = wide;
  const names = Object.keys(narrow.properties ?? {});
  const includes = (all: readonly unknown[], some: readonly unknown[] | undefined) =>
    some?.every((one) => all.includes(one)) === true;
  const compared = ['shape', 'default', 'type', 'number', 'enum', 'required', 'properties', 'items', 'allOf'];
  const others = Object.keys(wide).filter((keyword) => !compared.includes(keyword)) as (keyof Schema)[];
  return (
    (type === undefined || includes(type.includes('number') ? [...type, 'integer'] : type, narrow.type)) &&
    [undefined, 'double', narrow.number].includes(wide.number) &&
    (values === undefined || includes(values, narrow.enum)) &&
    includes(narrow.required ?? [], required) &&
    (items === undefined || inside(items, narrow.items)) &&
    allOf.every((part) => inside(part, narrow)) &&
    Object.entries(properties).every(([name, part]) => inside(part, narrow.properties?.[name])) &&
    (wide.additionalProperties === undefined || includes(Object.keys(properties), names)) &&
    others.every((keyword) => wide[keyword] === narrow[keyword])
  );
}
