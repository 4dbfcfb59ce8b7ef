// Reads the bodies of responses, and checks that they are what the contract promises.
import type { components } from '../contract/types.gen.js';
import { Fault } from './errors.js';
import { ArraySplitter, isBlank } from './json-array.js';

/** A plant as the service returns it, without its id. */
export type Plant = components['schemas']['Plant'];

/**
 * The types that JSON.parse reads exactly. A response with an int64, which JSON.parse would round, does not compile: if
 * the contract gets one, parse the bodies of responses exactly.
 */
type ParsedJson =
  | null
  | boolean
  | number
  | string
  | readonly ParsedJson[]
  | { readonly [name: string]: ParsedJson | undefined };

/** `Type` if both types are identical, otherwise never. Mutual assignability would not notice optional fields. */
export type SameAs<Other, Type> =
  (<T>(value: T) => T extends Type ? 1 : 2) extends <T>(value: T) => T extends Other ? 1 : 2 ? Type : never;

/** A plant with the fields that are checked here. It does not compile if the contract has others. */
type CheckedPlant = SameAs<Plant, { name: string; tag?: string }>;

/**
 * Checks a plant. It may have fields that this client does not know.
 * @throws Fault when it is not a plant.
 */
export function toPlant(value: unknown): Plant {
  const { name, tag } = (value ?? {}) as Record<keyof CheckedPlant, unknown>;
  if (typeof name !== 'string') throw new Fault('the name of a plant is missing or has the wrong type');
  if (tag !== undefined && typeof tag !== 'string') throw new Fault('the tag of a plant has the wrong type');
  return value as Plant;
}

/**
 * Checks a list of plants.
 * @throws Fault when it is not one.
 */
export function toPlants(value: unknown): Plant[] {
  if (!Array.isArray(value)) throw new Fault('the body is not a list');
  for (const plant of value) toPlant(plant);
  return value as Plant[];
}

/**
 * Checks the response to a create, which returns every field unchanged.
 * @throws Fault when it is not the plant that was sent.
 */
export function toCreated(value: unknown, sent: CheckedPlant): Plant {
  const { name, tag } = toPlant(value);
  if (name !== sent.name || tag !== sent.tag) throw new Fault('the plant is not the one that was sent');
  return value as Plant;
}

/**
 * Parses the body of a response.
 * @param check - Checks what it contains.
 * @throws Fault when it is not JSON, or the check fails; Error when the text ends early, as if the connection was lost.
 */
export function readBody<Data extends ParsedJson>(text: string, check: (value: unknown) => Data): Data {
  try {
    return readJson(text, check);
  } catch (cause) {
    if (endsEarly(text)) throw new Error('the body ends early', { cause });
    throw cause;
  }
}

/**
 * Parses JSON that has not been cut off.
 * @throws Fault when it is not JSON, or the check fails.
 */
export function readJson<Data extends ParsedJson>(text: string, check: (value: unknown) => Data): Data {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault('the body is not JSON');
  }
  return check(value);
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
