// A node of a contract: reads what is there, follows references, and reports faults where they are.
import leven from 'leven';
import type { Path, ContractText } from './contract-text.js';
import type { Finding } from './finding.js';

type Fields = Readonly<Record<string, unknown>>;

/** The one extension that the server reads. */
export const scopeExtension = 'x-required-scope';

/** What the components of each kind are. */
const kinds = {
  schemas: 'a schema',
  responses: 'a response',
  parameters: 'a parameter',
  requestBodies: 'a request body',
  headers: 'a header',
  securitySchemes: 'a security scheme',
  pathItems: 'a path item',
  examples: 'an example',
  links: 'a link',
  callbacks: 'a callback',
} as const;
type Kind = keyof typeof kinds;

/** Where a reference to a schema belongs if something that has a schema is expected. */
const withSchema: Readonly<Partial<Record<Kind, string>>> = {
  responses: 'Write description, and content with a media type and the reference in its schema',
  requestBodies: 'Write content with a media type, and the reference in its schema',
  parameters: 'Write name and in, and the reference in schema',
  headers: 'Write the reference in schema',
};

/** The longest name that is compared with others, and with how many: comparing takes the product of the lengths. */
const maxCompared = { length: 64, names: 1000 };

/** Returns the name that an author probably meant. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  if (name.length > maxCompared.length || names.length > maxCompared.names) return undefined;
  const given = name.toLowerCase();
  let maxDistance = Math.min(3, name.length / 2);
  let near: string | undefined;
  for (const one of names) {
    if (Math.abs(one.length - name.length) >= maxDistance) continue;
    const distance = leven(one.toLowerCase(), given, { maxDistance });
    if (distance < maxDistance) [near, maxDistance] = [one, distance];
  }
  return near;
}

/** The names in an object, which would take long to list for each reference to nothing. */
const namesOf = new WeakMap<object, readonly string[]>();

/** A value of a contract, and where it is. */
export class ContractNode {
  readonly value: unknown;
  readonly path: Path;
  readonly #text: ContractText;
  /** Whether nothing is reported here, as where a reference led nowhere: nothing else can be said about that. */
  readonly #isQuiet: boolean;
  /** Where its fields are: in an object, and in what the reference there refers to. */
  #parts: readonly [own: ContractNode, referred: ContractNode] | undefined;

  constructor(text: ContractText, value: unknown, path: Path, isQuiet = false) {
    this.#text = text;
    this.value = value;
    this.path = path;
    this.#isQuiet = isQuiet;
  }

  /** The same node, for a reader whose findings do not matter. */
  get quiet(): ContractNode {
    return new ContractNode(this.#text, this.value, this.path, true);
  }

  find(message: string, fix: string): Finding {
    return this.#text.find(this.path, message, fix);
  }

  fault(message: string, fix: string): void {
    if (!this.#isQuiet) this.#text.fault(this.path, message, fix);
  }

  warn(message: string, fix: string): void {
    if (!this.#isQuiet) this.#text.warn(this.path, message, fix);
  }

  get isObject(): boolean {
    return typeof this.value === 'object' && this.value !== null && !Array.isArray(this.value);
  }

  has(key: string): boolean {
    return this.isObject && Object.hasOwn(this.value as Fields, key);
  }

  /** A field of an object or an item of an array; its value is undefined if there is none. */
  at(key: string | number): ContractNode {
    const part = this.#parts?.find((one) => one.has(String(key)));
    if (part !== undefined) return part.at(key);
    const fields = (this.value ?? {}) as Fields;
    const value = Object.hasOwn(fields, key) ? fields[key] : undefined;
    return new ContractNode(this.#text, value, [...this.path, key], this.#isQuiet);
  }

  /** Checks the value of a discriminator's mapping: a reference, or the name of a schema. */
  refer(text: string): void {
    const $ref = /[#/.]/.test(text) ? text : `#/components/schemas/${text}`;
    new ContractNode(this.#text, { $ref }, this.path, this.#isQuiet).#find(new Set(), 'schemas');
  }

  /**
   * Follows a reference within the document, and a reference there. A reference to nothing is a fault.
   * @param kind - What it must refer to.
   */
  target(kind: Kind, seen = new Set<unknown>()): ContractNode {
    if (!this.has('$ref')) return this;
    if (seen.has(this.value)) return this.#lose(kind);
    seen.add(this.value);
    const ignored = kind === 'schemas' ? [] : this.#nextToReference;
    if (ignored.length > 0)
      this.warn(
        `OpenAPI ignores what is next to $ref (${ignored.join(', ')})`,
        'Leave that out, or write it in what the reference refers to',
      );
    return this.follow(kind).target(kind, seen);
  }

  /** The same with the fields of this object and of those that references lead to; one that is in several is a fault. */
  joined(kind: Kind, seen = new Set<unknown>()): ContractNode {
    if (!this.has('$ref')) return this;
    if (seen.has(this.value)) return this.#lose(kind);
    seen.add(this.value);
    const referred = this.follow(kind).joined(kind, seen);
    if (!referred.isObject) return referred;
    for (const name of this.#nextToReference.filter((one) => referred.has(one)))
      this.at(name).fault(`${name} is also in what $ref refers to`, 'Write all of it in one of the two');
    const fields = { ...(referred.value as Fields), ...(this.value as Fields) };
    Reflect.deleteProperty(fields, '$ref');
    const joined = new ContractNode(this.#text, fields, this.path, this.#isQuiet);
    joined.#parts = [this, referred];
    return joined;
  }

  get #nextToReference(): string[] {
    const isOther = (name: string) => !/^(\$ref|summary|description|x-.*)$/.test(name);
    return Object.keys(this.value as Fields).filter(isOther);
  }

  /**
   * Follows a reference within the document, once. A reference to nothing is a fault.
   * @param seen - The references that have been followed on the way here.
   */
  follow(kind?: Kind, seen = new Set<unknown>()): ContractNode {
    const steps = stepsOf(this.#reference ?? '');
    if (steps !== undefined) this.#text.refer(steps);
    return this.#find(seen, kind);
  }

  /** Whether a reference to this component, or to a place in it, has been followed. */
  get isReferred(): boolean {
    return this.#text.isReferred(this.path);
  }

  /** The text of a reference; the check of the structure has reported one that is something else. */
  get #reference(): string | undefined {
    const { value } = this.at('$ref');
    return typeof value === 'string' ? value : undefined;
  }

  #find(seen: Set<unknown>, kind?: Kind): ContractNode {
    const text = this.#reference;
    if (text === undefined) return this.#nothing;
    const steps = stepsOf(text);
    if (isOutside(text)) {
      this.at('$ref').fault(...describeReference(text));
      return this.#nothing;
    }
    if (seen.has(this.value) || steps === undefined) return this.#lose(kind);
    seen.add(this.value);
    let node = new ContractNode(this.#text, this.#text.value, []);
    for (const step of steps) {
      // What is next to a reference comes before what it refers to.
      while (node.at(step).value === undefined && node.#reference !== undefined)
        node = node.follow(undefined, seen);
      node = node.at(step);
    }
    if (node.value === undefined) return this.#lose(kind);
    if (kind !== undefined && (steps.length === 0 || (steps[0] === 'components' && steps.length < 3))) {
      this.at('$ref').fault(
        `${text} is not ${kinds[kind]}`,
        `Write the name of one, as in #/components/${kind}/Name`,
      );
      return this.#nothing;
    }
    const [, found = '', ...more] = steps[0] === 'components' ? steps : [];
    if (kind === undefined || found === kind || more.length !== 1 || !isKind(found)) return node;
    const other = this.#component(kind, steps.at(-1)!);
    const fix =
      (found === 'schemas' ? withSchema[kind] : undefined) ??
      `Refer to #/components/${kind}/${other ?? 'Name'}`;
    this.at('$ref').fault(`${text} is ${kinds[found]}, and this must be ${kinds[kind]}`, fix);
    return this.#nothing;
  }

  #lose(kind: Kind = 'schemas'): ContractNode {
    if (this.#isQuiet || this.#text.isFull) return this.#nothing;
    const text = this.#reference!;
    const name = unescape(text.split(/[/#]/).at(-1)!);
    const near = this.#component(kind, name);
    const written = `#/components/${kind}/${near}`;
    const isList = kind === 'schemas' && name.endsWith('s') && near?.endsWith('s') === false;
    const other =
      near === undefined
        ? ''
        : isList
          ? `, for a list { type: array, items: { $ref: '${written}' } }`
          : `, or write ${written} if that is what you mean`;
    const fix =
      near === name && written !== text ? `Write ${written}` : `Add ${name} to components/${kind}${other}`;
    this.at('$ref').fault(`${text} refers to nothing`, fix);
    return this.#nothing;
  }

  /** The name of the component that an author probably meant. */
  #component(kind: Kind, name: string): string | undefined {
    const { value } = new ContractNode(this.#text, this.#text.value, []).at('components').at(kind);
    if (typeof value !== 'object' || value === null) return undefined;
    const names = namesOf.get(value) ?? Object.keys(value);
    namesOf.set(value, names);
    return nearest(name, names);
  }

  /** What a reference to nothing refers to. */
  get #nothing(): ContractNode {
    return new ContractNode(this.#text, undefined, this.path, true);
  }

  /**
   * Checks that this is an object with the known fields, apart from extensions; other fields are faults.
   * @param names - Separated by spaces.
   * @param elsewhere - What to do about other fields that authors write here, by their names, separated by spaces.
   */
  allow(names: string, elsewhere: Readonly<Record<string, string>> = {}): void {
    const known = names.split(' ');
    if (!this.isObject) {
      this.#refuse('an object', `Write an object here, as in { ${known[0]!}: … }`);
      return;
    }
    const unknown = Object.keys(this.value as Fields).filter((name) => !known.includes(name));
    const rest = unknown.find((name) => this.#text.isRest(this.at(name).path));
    if (rest !== undefined) {
      this.at(rest).fault(
        `a comma ends the text before "${rest}"`,
        'Write the whole text in quotes, or a list in [ ]',
      );
      return;
    }
    for (const name of this.#text.isFull ? [] : unknown) {
      const isExtension = name.startsWith('x-');
      const near = nearest(name, isExtension ? [scopeExtension] : known);
      if (isExtension && near === undefined) continue;
      const place = Object.entries(elsewhere).find(([given]) => given.split(' ').includes(name))?.[1];
      const other = near === undefined ? 'Leave it out, or begin its name with x-' : `Write ${near}`;
      this.at(name).fault(`${name} is not supported here`, place ?? other);
    }
  }

  /** Reports that this has another type. */
  #refuse(name: string, fix: string): void {
    if (this.value === null) this.fault('is empty', 'Write below it what it contains, with more indentation');
    else this.fault(`must be ${name}`, fix);
  }

  /** Reports a fault if a field is missing. */
  require(key: string, fix: string): void {
    if (this.isObject && !this.has(key)) this.fault(`${key} is missing`, fix);
  }

  /** A field as a text; undefined if it is neither a text nor a number. */
  scalar(key: string): string | undefined {
    const { value } = this.at(key);
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  }

  /** A field that must be a text if it is there. */
  text(key: string): string | undefined {
    return this.#typed(key, 'string', 'a text') as string | undefined;
  }

  /** A field that must be true or false if it is there. */
  flag(key: string): boolean | undefined {
    return this.#typed(key, 'boolean', 'true or false') as boolean | undefined;
  }

  /** A field that must be a number if it is there. */
  number(key: string): number | undefined {
    return this.#typed(key, 'number', 'a number') as number | undefined;
  }

  #typed(key: string, type: string, name: string): unknown {
    const node = this.at(key);
    if (node.value === undefined || typeof node.value === type) return node.value;
    const isQuoted = typeof node.value === 'string' && /^(true|false|-?[\d.]+)$/.test(node.value);
    const isBare = type === 'string' && typeof node.value !== 'object';
    const quotes = isBare ? ', in quotes' : isQuoted ? ', without quotes' : '';
    node.fault(`must be ${name}`, `Write ${name} here${quotes}`);
    return undefined;
  }

  /** The items of a field that must be an array if it is there. */
  list(key: string, fix = 'Write an array here: a dash before each item, or [ ] around all'): ContractNode[] {
    const node = this.at(key);
    if (Array.isArray(node.value)) return node.value.map((_, i) => node.at(i));
    if (node.value !== undefined) node.#refuse('an array', fix);
    return [];
  }

  /** The entries of a field that must be an object if it is there. */
  entries(key: string): [string, ContractNode][] {
    const node = this.at(key);
    if (node.isObject) return Object.keys(node.value as Fields).map((name) => [name, node.at(name)]);
    if (node.value !== undefined) node.#refuse('an object', 'Write an object here');
    return [];
  }
}

/** Describes what is wrong with a reference that does not begin with `#`: it names another document, or nothing. */
export function describeReference(reference: string): [message: string, fix: string] {
  return isOutside(reference)
    ? [
        `${reference} is outside of this document`,
        'Bundle the contract into one file, as "redocly bundle" of @redocly/cli does',
      ]
    : [`${reference} refers to nothing`, 'Write a reference to a component, which begins with #'];
}

function isOutside(reference: string): boolean {
  return /^[^#]*[./]/.test(reference);
}

function isKind(name: string): name is Kind {
  return Object.hasOwn(kinds, name);
}

/** The steps of a reference; undefined if it does not stay within the document. */
export function stepsOf(reference: string): string[] | undefined {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  return reference.slice(1).split('/').slice(1).map(unescape);
}

/** Decodes one step of a reference (RFC 6901 section 6). */
function unescape(step: string): string {
  let text = step;
  try {
    text = decodeURIComponent(step);
  } catch {
    // Not encoded: the reference is looked up as it is.
  }
  return text.replaceAll('~1', '/').replaceAll('~0', '~');
}
