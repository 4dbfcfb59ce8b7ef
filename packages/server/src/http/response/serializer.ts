// Turns what a handler returns into JSON, if that is what the contract says.
import { setOwn } from '../../contract/document/exact-json.js';
import { exactJson } from '../../contract/document/json-text.js';
import type { Schema } from '../../contract/schema/schema.js';
import { UndeclaredResponseError } from '../../base/errors.js';
import { absent, anything, propertyOf, shapeOf, type Shape } from '../../contract/schema/shape.js';

/** Compiles the function that describes what is wrong with a value, or returns undefined if it is valid. */
export type ValidatorOf = (schema: Schema) => (value: unknown) => string | undefined;

/** Returns a body as JSON. @throws UndeclaredResponseError that says where the body is not what the contract says, and why. */
export type Serializer = (body: unknown) => string;

/**
 * Creates the function that turns the bodies of a response into JSON: what JSON.stringify writes, with exact integers, and
 * without the properties that are never in a response (`writeOnly`).
 * @param operationId - For the message of the error.
 */
export function createSerializer(schema: Schema, operationId: string, validatorOf: ValidatorOf): Serializer {
  let validate: ReturnType<ValidatorOf> | undefined;
  return (body) => {
    const copier = new Copier();
    const value = copier.copy(body, shapeOf(schema));
    // Compiled by the first response: a contract can have so many that the start would take long.
    validate ??= validatorOf(schema);
    const fault = value === undefined ? 'it is missing' : validate(value);
    if (fault !== undefined)
      throw new UndeclaredResponseError(
        `${operationId} returned a body that its contract does not allow: ${fault}`,
      );
    return copier.isExact ? exactJson(value as object) : JSON.stringify(value);
  };
}

/**
 * Copies values as JSON has them, so that what is validated is what is sent: methods toJSON are called, and what JSON
 * leaves out is left out. Only integers that a number would round are bigints.
 */
class Copier {
  /** Whether JSON.stringify cannot write the copy, since it has a bigint. */
  isExact = false;

  /** Returns undefined for a value that JSON leaves out. */
  copy(given: unknown, shape: Shape): unknown {
    if (shape === absent) return undefined;
    const value = hasToJson(given) ? given.toJSON() : given;
    switch (typeof value) {
      case 'bigint':
        if (Number.isSafeInteger(Number(value))) return Number(value);
        this.isExact = true;
        return value;
      case 'number':
        return Number.isFinite(value) ? value : null;
      case 'object':
        return value === null ? null : this.#copyParts(value, shape);
      case 'string':
      case 'boolean':
        return value;
      default:
        return undefined;
    }
  }

  #copyParts(value: object, shape: Shape): object {
    if (Array.isArray(value)) return value.map((item) => this.copy(item, shape.items ?? anything) ?? null);
    const copy: Record<string, unknown> = {};
    for (const name of Object.keys(value)) {
      const part = this.copy((value as Record<string, unknown>)[name], propertyOf(shape, name));
      if (part !== undefined) setOwn(copy, name, part);
    }
    return copy;
  }
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  return (
    typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function'
  );
}
