// Writes schemas as TypeScript types, which say what the server checks, no more and no less.
import type { Contract } from '../contract/contract.js';
import { isBig, isOfType, typeNames, type TypeName } from '../contract/schema/json-types.js';
import { isAnything, isNothing, type Schema, type Use } from '../contract/schema/schema.js';
import { allSchemas } from '../contract/schema/schema.js';
import { shapeOf, type Shape } from '../contract/schema/shape.js';

/** The use of a value, and whether its bytes are files, as in multipart/form-data; otherwise they are strings. */
export interface Place {
  readonly use: Use;
  readonly files?: boolean;
}

/** A schema as the contract has it, which is not checked if no operation uses it. */
interface Described {
  readonly description?: unknown;
  readonly properties?: Readonly<Record<string, Described | null>> | null;
}

/** A type with a name: of a component, or of a schema that contains itself. */
interface Named {
  readonly identifier: string;
  /** The type for each use, in which other types are marks. */
  readonly texts: Map<Use, string>;
  /** The uses that have a type of their own; the others have the first one. */
  readonly own: Set<Use>;
  readonly described: Described | null | undefined;
}

/** The member of `components` for types of a use that differ from those in `schemas`. */
const groups = { response: 'schemas', request: 'requests', text: 'texts' } as const;
const uses = Object.keys(groups) as Use[];

/** Stands for a type until it is known which uses share it: a contract cannot contain this character. */
const mark = String.fromCharCode(1);
const markOf = (index: number) => `${mark}${index}${mark}`;
const marks = new RegExp(`${mark}(\\d+)${mark}`, 'g');

/** The types of the schemas of a contract. */
export class SchemaTypes {
  readonly #unfilled: ReadonlySet<Schema>;
  readonly #named: Named[] = [];
  readonly #identifiers = new Set<string>();
  readonly #components = new Map<string, Named>();
  /** The index of the type of a schema, by its place. */
  readonly #indexes = new Map<string, Map<Schema, number>>();
  /** The schemas whose types are being written. */
  readonly #open = new Set<Schema>();

  constructor({ document, schemaOf, unfilled }: Contract) {
    this.#unfilled = unfilled;
    const { schemas = {} } = (document['components'] ?? {}) as { schemas?: Record<string, Described | null> };
    const found = Object.entries(schemas).flatMap(([component, described]) => {
      const forms = uses.flatMap((use) => {
        const schema = schemaOf(component, use);
        return schema === undefined ? [] : [{ use, schema }];
      });
      if (forms.length === 0) return [];
      const named = this.#name(component, described);
      this.#components.set(component, named);
      for (const { use, schema } of forms) {
        const indexes = this.#indexesOf({ use });
        if (!indexes.has(schema) && !isAnything(schema)) indexes.set(schema, this.#named.length - 1);
      }
      return [{ named, forms }];
    });
    for (const { named, forms } of found)
      for (const { use, schema } of forms) {
        const index = this.#indexesOf({ use }).get(schema);
        const isAlias = index !== undefined && this.#named[index] !== named;
        named.texts.set(use, isAlias ? markOf(index) : this.#written(schema, { use }, named.described));
      }
    this.#share();
  }

  /** The type of a value. */
  typeOf(schema: Schema, place: Place): string {
    return this.#final(bare(this.#type(schema, place)), place.use);
  }

  /** The declarations of all types that have names, and `components` with those of the contract. */
  declarations(): string {
    const types = this.#named.flatMap((named) =>
      [...named.own].map((use) => {
        const text = this.#final(bare(named.texts.get(use)!), use);
        return `${comment(named.described)}type ${identifierOf(named, use)} = ${text};\n`;
      }),
    );
    const members = uses.map((use, i) => {
      const lines = [...this.#components].flatMap(([component, named]) =>
        i === 0 || isApart(named, use) ? `    ${keyOf(component)}: ${identifierOf(named, use)};\n` : [],
      );
      return i === 0 || lines.length > 0 ? `  ${groups[use]}: {\n${lines.join('')}  };\n` : '';
    });
    return `${types.join('')}\nexport interface components {\n${members.join('')}}\n`;
  }

  #name(name: string, described?: Described | null): Named {
    const written = `$${name.replaceAll(/\W/g, '_')}`;
    let identifier = written;
    for (let i = this.#named.length; this.#identifiers.has(identifier); i++) identifier = `${written}_${i}`;
    this.#identifiers.add(identifier);
    const named = { identifier, texts: new Map<Use, string>(), own: new Set<Use>(), described };
    this.#named.push(named);
    return named;
  }

  /** Finds the uses whose types differ from those of the first use, by themselves or by those that they refer to. */
  #share(): void {
    for (let changed = true; changed;) {
      changed = false;
      for (const { texts, own } of this.#named) {
        const [[firstUse, first] = []] = texts;
        for (const [use, text] of texts) {
          if (own.has(use)) continue;
          if (use !== firstUse && this.#final(text, use) === this.#final(first!, firstUse!)) continue;
          own.add(use);
          changed = true;
        }
      }
    }
  }

  #final(text: string, use: Use): string {
    return text.replaceAll(marks, (_, index) => identifierOf(this.#named[Number(index)]!, use));
  }

  #indexesOf({ use, files = false }: Place): Map<Schema, number> {
    const key = `${use} ${files}`;
    let indexes = this.#indexes.get(key);
    if (indexes !== undefined) return indexes;
    // A schema without files has the same type in a form.
    const others = files ? [...this.#indexesOf({ use })].filter(([schema]) => !hasFiles(schema)) : [];
    this.#indexes.set(key, (indexes = new Map(others)));
    return indexes;
  }

  /**
   * The type of a value.
   * @param known - The types that it can have because of the schemas that it is combined with.
   */
  #type(schema: Schema, place: Place, known?: readonly TypeName[]): string {
    const indexes = this.#indexesOf(place);
    const index = indexes.get(schema);
    // Without a type, a part of a combination does not say by itself that it is an object.
    const isPart = known !== undefined && shapeOf(schema).types === undefined && !this.#open.has(schema);
    if (index !== undefined && !isPart) return markOf(index);
    if (this.#open.has(schema)) {
      const named = this.#name('Recursive');
      named.own.add(place.use);
      indexes.set(schema, this.#named.length - 1);
      return markOf(this.#named.length - 1);
    }
    const text = this.#written(schema, place, undefined, known);
    const own = indexes.get(schema);
    if (own === undefined || isPart) return text;
    this.#named[own]!.texts.set(place.use, text);
    return markOf(own);
  }

  /** The type that a schema says by itself and by those that it combines. */
  #written(schema: Schema, place: Place, described?: Described | null, known?: readonly TypeName[]): string {
    if (isNothing(schema)) return 'never';
    this.#open.add(schema);
    const types = shapeOf(schema).types ?? known;
    const { allOf = [], anyOf, oneOf, if: condition, then, else: otherwise } = schema;
    const part = (one: Schema | undefined) => (one === undefined ? 'unknown' : this.#type(one, place, types));
    const alternatives = [anyOf, oneOf, condition && [then, otherwise]].filter(
      (group) => group !== undefined,
    );
    const all = [
      this.#own(schema, place, types, described),
      ...allOf.map((one) => without(part(one), absentIn(shapeOf(schema), shapeOf(one)))),
      ...alternatives.map((group) => unionOf(group.map(part))),
    ];
    this.#open.delete(schema);
    return intersectionOf(all);
  }

  /** The type that a schema says by itself. */
  #own(schema: Schema, place: Place, known?: readonly TypeName[], described?: Described | null): string {
    const { type, binary } = schema;
    if (binary)
      return unionOf([place.files ? 'UploadedFile' : 'string', ...(type?.includes('null') ? ['null'] : [])]);
    if (schema.enum !== undefined) {
      const values = schema.enum.filter((value) => canHave(value, type));
      return unionOf(values.map((value) => literal(value, schema.number)));
    }
    const isObject = objectKeywords.some((keyword) => schema[keyword] !== undefined);
    const isArray = schema.items !== undefined || schema.prefixItems !== undefined;
    if (type === undefined && !isObject && !isArray) return 'unknown';
    const types = (type ?? known ?? typeNames).filter((one) => known?.includes(one) ?? true);
    const { number: form } = schema;
    const number = form === undefined ? '(number | bigint)' : isBig(form) ? 'bigint' : 'number';
    return unionOf(
      types.map((one) => {
        if (one === 'object') return this.#object(schema, place, described);
        if (one === 'array') return this.#array(schema, place);
        return one === 'integer' || one === 'number' ? number : one;
      }),
    );
  }

  #object(schema: Schema, place: Place, described?: Described | null): string {
    const { properties = {}, required = [], patternProperties = {} } = schema;
    const shape = shapeOf(schema);
    const rest = schema.additionalProperties ?? schema.unevaluatedProperties;
    const others = [...Object.values(patternProperties), ...(rest && !isNothing(rest) ? [rest] : [])];
    const isAbsent = (name: string, one?: Schema) =>
      one?.refused ?? shape.properties[name]?.types?.length === 0;
    const members = Object.entries(properties)
      .filter(([name, one]) => !isAbsent(name, one))
      .map(([name, one]) => {
        // A default is filled in.
        const isFilled = shapeOf(one).default !== undefined && !this.#unfilled.has(one);
        const isThere = required.includes(name) || isFilled;
        const text = this.#type(one, place);
        return { name, isThere, text, described: described?.properties?.[name] };
      });
    for (const name of required)
      if (!Object.hasOwn(properties, name) && !isAbsent(name))
        members.push({ name, isThere: true, text: 'unknown', described: undefined });
    if (members.length === 0 && others.length === 0)
      return rest === undefined && Object.keys(properties).length === 0
        ? '{ [name: string]: unknown }'
        : 'Record<string, never>';
    const lines = members.map(
      (one) => `${comment(one.described)}${keyOf(one.name)}${one.isThere ? '' : '?'}: ${bare(one.text)};\n`,
    );
    if (others.length > 0) {
      // A property must be of the type of the others, too, as TypeScript has it; or of any where more is combined.
      const isAlone = schema.allOf ?? schema.anyOf ?? schema.oneOf ?? schema.unevaluatedProperties;
      const types = isAlone === undefined ? others.map((one) => this.#type(one, place)) : ['unknown'];
      const optional = members.some(({ isThere }) => !isThere) ? ['undefined'] : [];
      const index = unionOf([...types, ...members.map(({ text }) => text), ...optional]);
      lines.push(`[name: string]: ${bare(index)};\n`);
    }
    return `{\n${indented(lines.join(''))}}`;
  }

  #array(schema: Schema, place: Place): string {
    const { prefixItems, items, minItems = 0, maxItems = Infinity } = schema;
    const others = items ?? schema.unevaluatedItems;
    const rest = others === undefined ? 'unknown' : this.#type(others, place);
    if (prefixItems === undefined) return rest === 'never' ? 'never[]' : `${rest}[]`;
    const places = prefixItems
      .slice(0, maxItems)
      .map((one, i) => this.#type(one, place) + (i < minItems ? '' : '?'));
    const isOpen = rest !== 'never' && maxItems > prefixItems.length;
    return `[${[...places, ...(isOpen ? [`...${rest}[]`] : [])].join(', ')}]`;
  }
}

/** Keywords that say something about objects. */
const objectKeywords = [
  ...(['properties', 'required', 'patternProperties'] as const),
  ...(['additionalProperties', 'unevaluatedProperties'] as const),
];

/** Whether a use has another type than the first one. */
function isApart({ texts, own }: Named, use: Use): boolean {
  const [first] = texts.keys();
  return use !== first && own.has(use);
}

function identifierOf(named: Named, use: Use): string {
  return isApart(named, use) ? `${named.identifier}_${use}` : named.identifier;
}

function hasFiles(schema: Schema): boolean {
  return [...allSchemas(schema)].some(({ binary }) => binary);
}

/** The properties of a part that a combination does not have. */
function absentIn({ properties }: Shape, part: Shape): string[] {
  const isAbsent = (one: Shape | undefined) => one?.types?.length === 0;
  return Object.keys(part.properties).filter(
    (name) => isAbsent(properties[name]) && !isAbsent(part.properties[name]),
  );
}

function without(text: string, names: readonly string[]): string {
  return names.length === 0 ? text : `Omit<${bare(text)}, ${names.map(quoted).join(' | ')}>`;
}

/** Whether a value that a schema names can be there: YAML also has numbers that JSON lacks. */
function canHave(value: unknown, types: readonly TypeName[] | undefined): boolean {
  if (typeof value === 'number' && !Number.isFinite(value)) return false;
  return isOfType(value, types);
}

/** The type of a value that is JSON. */
function literal(value: unknown, number: Schema['number']): string {
  if (typeof value === 'number') return isBig(number) ? `${value}n` : String(value);
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, undefined)).join(', ')}]`;
  if (typeof value === 'string') return quoted(value);
  if (typeof value !== 'object' || value === null) return String(value);
  const members = Object.entries(value).map(([name, one]) => `${keyOf(name)}: ${literal(one, undefined)}`);
  return `{ ${members.join('; ')} }`;
}

function unionOf(texts: readonly string[]): string {
  const all = [...new Set(texts)].filter((text) => text !== 'never');
  if (all.includes('unknown')) return 'unknown';
  return all.length === 0 ? 'never' : grouped(all, ' | ');
}

function intersectionOf(texts: readonly string[]): string {
  const all = [...new Set(texts)].filter((text) => text !== 'unknown');
  return all.length === 0 ? 'unknown' : grouped(all, ' & ');
}

/** Types in parentheses, unless there is only one. */
function grouped(all: readonly string[], separator: string): string {
  return all.length === 1 ? all[0]! : `(${all.join(separator)})`;
}

/** A type without the parentheses of `grouped`. */
function bare(text: string): string {
  return text.startsWith('(') && text.endsWith(')') ? text.slice(1, -1) : text;
}

/** Lines with more indentation. */
export function indented(lines: string): string {
  return lines.replaceAll(/^(?=.)/gm, '  ');
}

/** Writes a contract's description of a type as a comment. */
export function comment(described: Described | null = {}): string {
  const description = described?.description;
  if (typeof description !== 'string' || description.trim() === '') return '';
  const lines = description
    .trim()
    .split(/\r?\n/)
    .map((line) => line.replaceAll('\t', '  ').replaceAll('*/', '*\\/'))
    // A comment that begins with one of the compiler's directives would be one.
    .map((line) => line.replaceAll('@ts-', '@\u200bts-'));
  return lines.length === 1
    ? `/** ${lines[0]!} */\n`
    : `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */\n`;
}

/** The key of a property, in quotes if it needs them. */
export function keyOf(name: string): string {
  return quoted(name).replace(/^"([A-Za-z]\w*)"$/, '$1');
}

/** A text in code: on one line, also for the compiler, to which U+2028 and U+2029 end one. */
export function quoted(text: string): string {
  return JSON.stringify(text).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');
}
