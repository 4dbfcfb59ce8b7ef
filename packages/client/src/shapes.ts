// Checks that the body of a response has the types that the contract promises.
import { Fault } from './errors.js';
import { shapes, type Shape } from './operations.gen.js';

/**
 * Checks a value. It may have properties that this client does not know.
 * @param place - Where the value is, as a person would say it.
 * @throws Fault when it does not have the shape.
 */
export function checkShape(value: unknown, shape: Shape, place: string): void {
  const { type, nullable, required, properties, items } =
    shape.$ref === undefined ? shape : shapes[shape.$ref]!;
  if (value === null && nullable === true) return;
  if (type !== undefined && !hasType(value, type)) throw new Fault(`${place} is not of type ${type}`);
  if (items !== undefined) {
    (value as unknown[]).forEach((item, index) => {
      checkShape(item, items, `element ${index + 1} of ${place}`);
    });
  }
  for (const name of required ?? []) {
    if (!Object.hasOwn(value as object, name)) throw new Fault(`${name} is missing from ${place}`);
  }
  for (const [name, property] of Object.entries(properties ?? {})) {
    const field = (value as Record<string, unknown>)[name];
    if (field !== undefined) checkShape(field, property, `${name} of ${place}`);
  }
}

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
