// A node of a contract: reads what is there, follows references, and reports faults where they are.
import { closestMatch } from 'leven';
import type { Path, ContractText } from './contract-text.js';
import type { Finding } from './finding.js';
import { describeReference, isOutside, stepsOf } from './references.js';

type Fields = Readonly<Record<string, unknown>>;

/** The one extension that the server reads. */
export const scopeExtension = 'x-required-scope';

/** The name of each kind of component, for messages. */
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

/** The maximum length of a chain of references: a longer one is a circle. */
const maxReferences = 100;

/** Returns the name that an author probably meant. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  const lower = names.map((candidate) => candidate.toLowerCase());
  const maxDistance = Math.min(2, Math.ceil(name.length / 2) - 1);
  const match = closestMatch(name.toLowerCase(), lower, { maxDistance });
  return match === undefined ? undefined : names[lower.indexOf(match)];
}

/** A value of a contract, and where it is. */
export class ContractNode {
  readonly value: unknown;
  readonly path: Path;
  readonly #text: ContractText;
  /** Whether nothing is reported here, as where a reference led nowhere: nothing else can be said about that. */
  readonly #isQuiet: boolean;
  /** The places of its fields: an object, and the target of the reference there. */
  #parts: readonly ContractNode[] = [];

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
    const part = this.#parts.find((node) => node.has(String(key)));
    if (part !== undefined) return part.at(key);
    const fields = (this.value ?? {}) as Fields;
    const value = Object.hasOwn(fields, key) ? fields[key] : undefined;
    return new ContractNode(this.#text, value, [...this.path, key], this.#isQuiet);
  }

  /** Checks the value of a discriminator's mapping: a reference, or the name of a schema. */
  refer(text: string): void {
    const $ref = /[#/.]/.test(text) ? text : `#/components/schemas/${text}`;
    new ContractNode(this.#text, { $ref }, this.path, this.#isQuiet).#find('schemas');
  }

  /**
   * Follows a reference within the document, and a reference there. A reference to nothing is a fault.
   * @param kind - The kind of component that it must refer to.
   * @param count - The number of references that have led here.
   */
  target(kind: Kind, count = 0): ContractNode {
    if (!this.has('$ref')) return this;
    const ignored = kind === 'schemas' ? [] : this.#nextToReference;
    if (ignored.length > 0)
      this.warn(
        `OpenAPI ignores what is next to $ref (${ignored.join(', ')})`,
        'Leave that out, or write it in what the reference refers to',
      );
    return this.follow(kind, count).target(kind, count + 1);
  }

  /**
   * Like `target`, but with the fields of this object and of all that its references lead to. A field that is in
   * several of them is a fault.
   */
  joined(kind: Kind, count = 0): ContractNode {
    if (!this.has('$ref')) return this;
    const referred = this.follow(kind, count).joined(kind, count + 1);
    if (!referred.isObject) return referred;
    for (const name of this.#nextToReference.filter((field) => referred.has(field)))
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
   * @param count - The number of references that have led here.
   */
  follow(kind?: Kind, count = 0): ContractNode {
    const { value } = this.at('$ref');
    const steps = typeof value === 'string' ? stepsOf(value) : undefined;
    if (steps !== undefined) this.#text.refer(steps);
    return this.#find(kind, count);
  }

  /** Whether a reference to this component, or to a place in it, has been followed. */
  get isReferred(): boolean {
    return this.#text.isReferred(this.path);
  }

  #find(kind?: Kind, count = 0): ContractNode {
    const { value: reference } = this.at('$ref');
    if (typeof reference !== 'string')
      return this.#lose('the reference is not a text', 'Write it in quotes: in YAML, # begins a comment');
    if (isOutside(reference)) return this.#lose(...describeReference(reference));
    if (count > maxReferences)
      return this.#lose(`${reference} leads back to itself`, 'Refer to what it is meant to be');
    const steps = stepsOf(reference);
    if (steps === undefined) return this.#loseName(reference, kind);
    let node = new ContractNode(this.#text, this.#text.value, []);
    for (const step of steps) {
      // What is next to a reference comes before what it refers to.
      while (node.at(step).value === undefined && node.has('$ref')) node = node.follow(undefined, count + 1);
      node = node.at(step);
    }
    if (node.value === undefined) return node.#isQuiet ? node : this.#loseName(reference, kind);
    return this.#checkKind(node, reference, steps, kind);
  }

  /** Checks that a reference to a component, or to something around components, refers to what it must. */
  #checkKind(node: ContractNode, reference: string, steps: readonly string[], kind?: Kind): ContractNode {
    const [top = 'components', group = '', ...names] = steps;
    if (kind === undefined || top !== 'components' || names.length > 1) return node;
    if (names.length === 0)
      return this.#lose(
        `${reference} is not ${kinds[kind]}`,
        `Write the name of one, as in #/components/${kind}/Name`,
      );
    if (group === kind || !isKind(group)) return node;
    const near = this.#nearestComponent(kind, names[0]!);
    const fix =
      group === 'schemas' && near === undefined
        ? `Write ${kinds[kind]} here, and the reference in its schema`
        : `Refer to #/components/${kind}/${near ?? 'Name'}`;
    return this.#lose(`${reference} is ${kinds[group]}, and this must be ${kinds[kind]}`, fix);
  }

  /** Reports a faulty reference, and returns a node about which nothing else is reported. */
  #lose(message: string, fix: string): ContractNode {
    this.at('$ref').fault(message, fix);
    return new ContractNode(this.#text, undefined, this.path, true);
  }

  #loseName(reference: string, kind: Kind = 'schemas'): ContractNode {
    const name = stepsOf(reference)?.at(-1) ?? reference.replace('#', '');
    const near = this.#nearestComponent(kind, name);
    const add = `add ${name} to components/${kind}`;
    const fix =
      near === undefined
        ? `Add ${name} to components/${kind}`
        : `Write #/components/${kind}/${near}${near === name ? '' : `, or ${add}`}`;
    return this.#lose(`${reference} refers to nothing`, fix);
  }

  /** The name of the component that an author probably meant. */
  #nearestComponent(kind: Kind, name: string): string | undefined {
    const components = new ContractNode(this.#text, this.#text.value, []).at('components').at(kind);
    return nearest(name, components.isObject ? Object.keys(components.value as Fields) : []);
  }

  /**
   * Checks that this is an object with the known fields, apart from extensions; other fields are faults.
   * @param names - Separated by spaces.
   * @param place - Where other fields belong that authors write here.
   */
  allow(names: string, place?: string): void {
    const allowed = names.split(' ');
    if (!this.isObject) {
      this.#refuse('an object', `Write an object here, as in { ${allowed[0]!}: … }`);
      return;
    }
    for (const name of Object.keys(this.value as Fields).filter((field) => !allowed.includes(field))) {
      const isExtension = name.startsWith('x-');
      const near = nearest(name, isExtension ? [scopeExtension] : allowed);
      if (isExtension && near === undefined) continue;
      // As in { description: Red, or green }.
      const isRest = this.at(name).value === null && name.includes(' ');
      const other =
        place === undefined
          ? 'Leave it out, or begin its name with x-'
          : `Write it ${place}, or leave it out`;
      const fix = isRest
        ? 'Write the text before it in quotes if the comma belongs to that, or leave it out'
        : near === undefined
          ? other
          : `Write ${near}`;
      this.at(name).fault(`${name} is not supported here`, fix);
    }
  }

  /** Reports that this has another type. */
  #refuse(name: string, fix: string): void {
    if (this.value === null && !this.#text.isJson)
      this.fault('is empty', 'Write below it what it contains, with more indentation');
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
    return this.#typed(key, 'string', 'a text, in quotes if it looks like a number') as string | undefined;
  }

  /** A field that must be true or false if it is there. */
  flag(key: string): boolean | undefined {
    return this.#typed(key, 'boolean', 'true or false, without quotes') as boolean | undefined;
  }

  /** A field that must be a number if it is there. */
  number(key: string): number | undefined {
    return this.#typed(key, 'number', 'a number, without quotes') as number | undefined;
  }

  #typed(key: string, type: string, name: string): unknown {
    const node = this.at(key);
    if (node.value === undefined || typeof node.value === type) return node.value;
    node.fault(`must be ${name.split(',')[0]!}`, `Write ${name}`);
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

function isKind(name: string): name is Kind {
  return Object.hasOwn(kinds, name);
}
