// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import { checkKeywords, checkValues, onlyDescribes, readKeywords } from './keywords.js';
import type { Place } from './place.js';
import { findShape } from './schema-shape.js';
import { anySchema, nothing, partsOf, type Draft, type Schema, type Use } from './schema.js';
import { anything, Shapes, typeNames, type NumberForm, type TypeName } from './shape.js';

/** The maximum number of schemas inside one, with its references written out: what comes after takes that much time. */
const maxParts = 20_000;

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known = mapsByUse();
  /** What stands for schemas inside themselves. */
  readonly #recursive = mapsByUse();
  /** How many schemas are inside each one, with its references written out. */
  readonly #parts = new Map<Schema, number>();
  /** The schemas that are being normalized. */
  readonly #open = new Set<unknown>();
  readonly #shapes = new Shapes();
  /** Checks of shapes, which are known only when all schemas are. */
  readonly #checks: (() => void)[] = [];

  /** @param is30 - Whether the document is of OpenAPI 3.0; otherwise it is of 3.1. */
  constructor(is30: boolean) {
    this.#is30 = is30;
  }

  normalize(given: Place, use: Use): Schema {
    // The server sends errors of its own: what it does not support in their schemas has no effect.
    const place = use === 'error' && !given.has('$ref') ? given.quiet : given;
    if (place.value === true) return anySchema;
    if (place.value === false) return nothing;
    if (!place.isObject) {
      place.fault('must be a schema', 'Write an object with a type, or leave it out');
      return anySchema;
    }
    const found = this.#known[use].get(place.value);
    if (found !== undefined) return found;
    if (this.#open.has(place.value)) return this.#repeat(place, use);
    this.#open.add(place.value);
    let schema = place.has('$ref') ? this.#reference(place, use) : this.#inline(place, use);
    if (this.#countParts(schema) > maxParts) {
      place.fault(
        `has more than ${maxParts} parts when its references are written out`,
        'Refer to fewer schemas that refer to others',
      );
      schema = anySchema;
    }
    this.#open.delete(place.value);
    this.#known[use].set(place.value, schema);
    if (this.#open.size === 0) {
      for (const check of this.#checks.splice(0)) check();
      this.#shapes.settle();
    }
    return schema;
  }

  /** Stands for a schema inside itself. */
  #repeat(place: Place, use: Use): Schema {
    const known = this.#recursive[use].get(place.value);
    if (known !== undefined) return known;
    const recursive = () => this.#known[use].get(place.value)!;
    const shape = this.#shapes.postpone(
      () => recursive().shape,
      () => {
        place.fault('the schema contains itself', 'Refer to it only in a property or in items');
      },
    );
    const schema = { recursive, shape };
    this.#recursive[use].set(place.value, schema);
    return schema;
  }

  #countParts(schema: Schema): number {
    const parts = partsOf(schema).reduce((sum, one) => sum + (this.#parts.get(one) ?? 1), 1);
    this.#parts.set(schema, parts);
    return parts;
  }

  #reference(place: Place, use: Use): Schema {
    const target = this.normalize(place.target(), use);
    const siblings = Object.keys(place.value as object).filter(
      (name) => name !== '$ref' && !onlyDescribes(name),
    );
    if (siblings.length === 0) return target;
    if (this.#is30) {
      place.warn(
        `OpenAPI 3.0 ignores what is next to $ref (${siblings.join(', ')})`,
        'Write allOf with the reference, and the rest next to it',
      );
      return target;
    }
    return this.#inline(place, use, target);
  }

  /** @param referenced - What a `$ref` next to the keywords refers to. */
  #inline(place: Place, use: Use, referenced?: Schema): Schema {
    checkKeywords(place, this.#is30);
    const nullable = this.#nullable(place, use);
    if (nullable !== undefined) return nullable;
    const types = this.#types(place, use);
    const isArray = place.at('type').value === 'array';
    if (isArray && this.#is30) place.require('items', 'Write items with the schema of the items');
    const context = { use, is30: this.#is30, types, normalize: (part: Place) => this.normalize(part, use) };
    const draft: Draft = {
      ...(types !== undefined && { type: types }),
      ...readKeywords(place, context),
      shape: anything,
    };
    const number = numberForm(place, types);
    if (number === 'integer' && place.at('format').value === 'int32') {
      draft.minimum = Math.max(draft.minimum ?? -Infinity, -(2 ** 31));
      draft.maximum = Math.min(draft.maximum ?? Infinity, 2 ** 31 - 1);
    }
    if (referenced !== undefined) draft.allOf = [referenced, ...(draft.allOf ?? [])];
    if (isLeftOut(place, use) || draft.allOf?.some((part) => part.refused)) draft.refused = true;
    draft.shape = findShape({ schema: draft, number, place, use }, this.#shapes);
    this.#checks.push(() => {
      this.#checkRequired(place, draft);
      checkValues(place, draft.shape.types);
    });
    return draft;
  }

  /** Reads anyOf or oneOf of a schema and null, as generators write for a nullable value, as if null was a type of it. */
  #nullable(place: Place, use: Use): Schema | undefined {
    const isNull = (part: Place) => part.at('type').value === 'null';
    const keyword = ['anyOf', 'oneOf'].find((name) => {
      const parts = place.list(name);
      return parts.length === 2 && parts.filter(isNull).length === 1;
    });
    if (keyword === undefined) return undefined;
    const schema = this.normalize(
      place.list(keyword).find((part) => !isNull(part))!,
      use,
    );
    const isAlone = Object.keys(place.value as object).every(
      (name) => [keyword, 'default', 'readOnly', 'writeOnly'].includes(name) || onlyDescribes(name),
    );
    const { allOf, anyOf, oneOf, not, if: condition, type: types } = schema;
    if (!isAlone || types === undefined || (allOf ?? anyOf ?? oneOf ?? not ?? condition)) return undefined;
    const withNull: TypeName[] = [...new Set<TypeName>([...types, 'null'])];
    const own = place.has('default') ? { default: place.at('default').value } : {};
    const shape = { ...schema.shape, ...own, types: withNull };
    checkValues(place, withNull);
    return {
      ...schema,
      type: withNull,
      ...(schema.enum !== undefined && { enum: [...new Set([...schema.enum, null])] }),
      ...(isLeftOut(place, use) && { refused: true }),
      shape,
    };
  }

  #types(place: Place, use: Use): readonly TypeName[] | undefined {
    const type = place.at('type');
    if (type.value === undefined) {
      const isVain = place.flag('nullable') === true && !place.has('$ref');
      if (isVain) place.at('nullable').warn('nullable has no effect without a type', 'Write type next to it');
      return undefined;
    }
    const isList = Array.isArray(type.value);
    if (isList && this.#is30) {
      type.fault(
        'OpenAPI 3.0 has one type',
        'Write one type, with nullable: true for null, or use openapi: 3.1.0',
      );
    }
    const names: unknown[] = [type.value].flat();
    const wrong = names.find((name) => !typeNames.some((known) => known === name));
    if (wrong !== undefined || names.length === 0) {
      type.fault(
        `${JSON.stringify(wrong ?? [])} is not a type`,
        `Write one of ${typeNames.slice(1).join(', ')}`,
      );
      return undefined;
    }
    if (use === 'text' && names.includes('object')) {
      type.fault('an object is not supported here', 'Write a parameter for each property, or a body');
    }
    const types = [...new Set(names)] as TypeName[];
    if (place.flag('nullable') !== true || types.includes('null')) return types;
    if (!this.#is30)
      place.at('nullable').warn('OpenAPI 3.1 has no nullable', `Write type: [${types.join(', ')}, "null"]`);
    return [...types, 'null'];
  }

  #checkRequired(place: Place, { shape, allOf }: Schema): void {
    const missing = shape.required.find((name) => !Object.hasOwn(shape.properties, name));
    if (missing === undefined || shape.additional !== false) return;
    const at = allOf === undefined ? place.at('required') : place;
    at.fault(
      `requires ${missing}, which is not one of its properties`,
      'Add the property, or do not require it',
    );
  }
}

function mapsByUse(): Record<Use, Map<unknown, Schema>> {
  return { text: new Map(), request: new Map(), response: new Map(), error: new Map() };
}

/** Whether a property must not be in a request (`readOnly`) or in a response (`writeOnly`). */
function isLeftOut(place: Place, use: Use): boolean {
  return use !== 'text' && place.flag(use === 'request' ? 'readOnly' : 'writeOnly') === true;
}

function numberForm(place: Place, types: readonly TypeName[] | undefined): NumberForm | undefined {
  if (types?.includes('number')) return 'double';
  if (!types?.includes('integer')) return undefined;
  return place.at('format').value === 'int64' ? 'int64' : 'integer';
}
