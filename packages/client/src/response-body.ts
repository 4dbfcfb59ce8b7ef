// Reads the bodies of responses.
import { Fault } from './errors.js';
import { ArraySplitter, isBlank } from './json-array.js';
import type { Shape } from './operations.gen.js';
import { checkShape } from './shapes.js';

/**
 * The types that JSON.parse reads exactly. A response with an int64, which JSON.parse would round, does not compile: if
 * the contract gets one, parse the bodies of responses exactly.
 */
export type ParsedJson =
  | null
  | boolean
  | number
  | string
  | readonly ParsedJson[]
  | { readonly [name: string]: ParsedJson | undefined };

/** `Type` if both types are identical, otherwise never. Mutual assignability would not notice optional fields. */
export type SameAs<Other, Type> =
  (<T>(value: T) => T extends Type ? 1 : 2) extends <T>(value: T) => T extends Other ? 1 : 2 ? Type : never;

/**
 * Parses the body of a response.
 * @throws Fault when it is not JSON, or does not have the shape; Error when the text ends early, as if the connection
 * was lost.
 */
export function readBody(text: string, shape: Shape): unknown {
  try {
    return readJson(text, shape);
  } catch (cause) {
    if (endsEarly(text)) throw new Error('the body ends early', { cause });
    throw cause;
  }
}

/**
 * Parses JSON that has not been cut off.
 * @param place - What it is, for the messages.
 * @throws Fault when it is not JSON, or does not have the shape.
 */
export function readJson(text: string, shape: Shape, place = 'the body'): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault(`${place} is not JSON`);
  }
  checkShape(value, shape, place);
  return value;
}

/** Whether a text that is not valid JSON is the beginning of an array or object, or is blank. */
function endsEarly(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return isBlank(text);
  const splitter = new ArraySplitter();
  try {
    splitter.push(`[${text}`);
  } catch {
    return false;
  }
  return splitter.insideElement;
}
