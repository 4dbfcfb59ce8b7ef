// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import {
  checkKeywords,
  checkName,
  checkValues,
  count,
  isNullableAlternative,
  onlyDescribes,
  readNumbers,
  readTexts,
  readValues,
  typeNames,
} from './keywords.js';
import type { Place } from './place.js';
import { isOfRequests, type Schema, type Use } from './schema.js';
import {
  absent,
  anything,
  mergeShapes,
  withoutAbsent,
  type NumberForm,
  type Shape,
  type TypeName,
} from './shape.js';

type Draft = { -readonly [Keyword in keyof Schema]: Schema[Keyword] };

/** The maximum number of schemas inside one, with its references written out: what comes after takes that much time. */
const maxParts = 20_000;

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known = new Map<unknown, Partial<Record<Use, Schema>>>();
  /** Accepts every value. */
  readonly anything: Schema = { shape: anything };
  /** How many schemas are inside each one, with its references written out. */
  readonly #parts = new Map<Schema, number>();
  /** The schemas that are being normalized. */
  readonly #open = new Set<unknown>();

  /** @param is30 - Whether the document is of OpenAPI 3.0; otherwise it is of 3.1. */
  constructor(is30: boolean) {
    this.#is30 = is30;
  }

  normalize(given: Place, use: Use): Schema {
    // The server sends errors of its own: what it does not support in their schemas has no effect.
    const place = use === 'error' && !given.has('$ref') ? given.quiet : given;
    if (place.value === true) return this.anything;
    if (!place.isObject) {
      place.fault('must be a schema', 'Write an object with a type, or leave it out');
      return this.anything;
    }
    const found = this.#known.get(place.value)?.[use];
    if (found !== undefined) return found;
    if (this.#open.has(place.value)) {
      place.fault(
        'the schema contains itself',
        'Limit the nesting by writing out its levels, or refer by ids',
      );
      return this.anything;
    }
    this.#open.add(place.value);
    let schema = place.has('$ref') ? this.#reference(place, use) : this.#inline(place, use);
    if (this.#countParts(schema) > maxParts) {
      place.fault(
        `has more than ${maxParts} parts when its references are written out`,
        'Refer to fewer schemas that refer to others',
      );
      schema = this.anything;
    }
    this.#open.delete(place.value);
    this.#known.set(place.value, { ...this.#known.get(place.value), [use]: schema });
    return schema;
  }

  #countParts(schema: Schema): number {
    const { properties = {}, items, additionalProperties, allOf = [] } = schema;
    const inner = [...Object.values(properties), ...allOf, items, additionalProperties];
    const parts = inner.reduce((sum, one) => sum + (one ? (this.#parts.get(one) ?? 1) : 0), 1);
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
    checkKeywords(place);
    const nullable = this.#nullable(place, use);
    if (nullable !== undefined) return nullable;
    const types = this.#types(place, use);
    const draft: Draft = {
      ...(types !== undefined && { type: types }),
      ...readTexts(place, use, types),
      ...readNumbers(place, this.#is30),
      ...readValues(place),
      ...this.#array(place, use),
      ...this.#object(place, use),
      shape: anything,
    };
    const number = numberForm(place, types);
    if (number === 'integer' && place.at('format').value === 'int32') {
      draft.minimum = Math.max(draft.minimum ?? -Infinity, -(2 ** 31));
      draft.maximum = Math.min(draft.maximum ?? Infinity, 2 ** 31 - 1);
    }
    const parts = place.list('allOf').map((part) => this.normalize(part, use));
    if (referenced !== undefined) parts.unshift(referenced);
    if (parts.length > 0) draft.allOf = parts;
    if (isLeftOut(place, use) || parts.some((part) => part.refused)) draft.refused = true;
    const report = (message: string) => {
      place.fault(message, 'Let all parts of allOf agree');
    };
    const own = ownShape(draft, number, place);
    draft.shape = parts.reduce((shape, part) => mergeShapes(shape, part.shape, report), own);
    this.#checkRequired(place, draft);
    checkValues(place, draft.shape.types);
    return draft;
  }

  #nullable(place: Place, use: Use): Schema | undefined {
    const keyword = ['anyOf', 'oneOf'].find((name) => isNullableAlternative(place, name));
    if (keyword === undefined) return undefined;
    const part = place.list(keyword).find((one) => one.at('type').value !== 'null')!;
    const schema = this.normalize(part, use);
    const types = schema.shape.types;
    const isAlone = Object.keys(place.value as object).every(
      (name) => [keyword, 'default', 'readOnly', 'writeOnly'].includes(name) || onlyDescribes(name),
    );
    if (types === undefined || schema.allOf !== undefined || !isAlone) {
      place.at(keyword).fault(`${keyword} is not supported here`, 'Write null in the type of the schema');
      return schema;
    }
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
    const wrong = names.find((name) => typeof name !== 'string' || !typeNames.includes(name));
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

  #array(place: Place, use: Use): Partial<Schema> {
    const isArray = place.at('type').value === 'array';
    if (isArray && this.#is30) place.require('items', 'Write items with the schema of the items');
    const items = place.has('items') ? this.normalize(place.at('items'), use) : undefined;
    const unique = place.flag('uniqueItems') === true;
    // Of requests: Ajv compares all items in pairs, unless the schema of the items itself says that they are texts.
    const mayBeArray = !place.has('type') || [place.at('type').value].flat().includes('array');
    if (unique && mayBeArray && isOfRequests(use) && items?.type?.join() !== 'string') {
      place
        .at('uniqueItems')
        .fault(
          'uniqueItems is supported only for items of type string',
          'Leave it out, and compare the items in the handler',
        );
    }
    return {
      ...(items !== undefined && { items }),
      ...count(place, 'minItems'),
      ...count(place, 'maxItems'),
      ...(unique && { uniqueItems: true }),
    };
  }

  #object(place: Place, use: Use): Partial<Schema> {
    const properties = place.entries('properties').map(([name, property]) => {
      checkName(property, name);
      const schema = this.normalize(property, use);
      return [name, schema.refused ? { refused: schema.refused, shape: absent } : schema] as const;
    });
    const fix = 'List the names of the required properties, next to properties';
    const required = place.list('required', fix).flatMap((one) => {
      if (typeof one.value === 'string') return one.value;
      one.fault('must be a text', 'Write the name of a property');
      return [];
    });
    const given = place.at('additionalProperties');
    const additional = given.isObject ? this.normalize(given, use) : undefined;
    if (additional === undefined && ![undefined, true, false].includes(given.value as boolean)) {
      given.fault('must be true, false or a schema', 'Write false to allow no other properties');
    }
    return {
      ...(place.has('properties') && { properties: Object.fromEntries(properties) }),
      ...(required.length > 0 && { required: [...new Set(required)] }),
      ...(given.value === true && { additionalProperties: this.anything }),
      ...(given.value === false && { additionalProperties: false as const }),
      ...(additional !== undefined && { additionalProperties: additional }),
      ...count(place, 'minProperties'),
      ...count(place, 'maxProperties'),
    };
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

/** Whether a property must not be in a request (`readOnly`) or in a response (`writeOnly`). */
function isLeftOut(place: Place, use: Use): boolean {
  return use !== 'text' && place.flag(use === 'request' ? 'readOnly' : 'writeOnly') === true;
}

function ownShape(schema: Schema, number: NumberForm | undefined, place: Place): Shape {
  const { type, required = [], additionalProperties, items } = schema;
  const properties = Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, { shape }]) => [name, shape]),
  );
  const isText = schema.enum?.every((value) => typeof value === 'string');
  const says =
    type ?? isText ?? number ?? schema.properties ?? schema.required ?? additionalProperties ?? items;
  if (says === undefined && !place.has('default')) return anything;
  return {
    types: type ?? (isText === true ? ['string'] : undefined),
    number,
    properties,
    required: withoutAbsent(required, properties),
    additional: additionalProperties === false ? false : additionalProperties?.shape,
    items: items?.shape,
    ...(place.has('default') && { default: place.at('default').value }),
  };
}

function numberForm(place: Place, types: readonly TypeName[] | undefined): NumberForm | undefined {
  if (types?.includes('number')) return 'double';
  if (!types?.includes('integer')) return undefined;
  return place.at('format').value === 'int64' ? 'int64' : 'integer';
}
