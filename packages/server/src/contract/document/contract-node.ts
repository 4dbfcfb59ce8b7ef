// A node of a contract: reads what is there, follows references, and reports faults where they are.
import { closestMatch } from 'leven';
import type { Path, ContractText } from './contract-text.js';
import type { Finding } from './finding.js';
import { describeReference, isOutside, stepsOf } from './references.js';

type Fields = Readonly<Record<string, unknown>>;

/** The one extension that the server reads. */
export const scopeExtension = 'x-required-scope';

/** The kinds of components that references lead to. */
type Kind =
  'schemas' | 'responses' | 'parameters' | 'requestBodies' | 'headers' | 'securitySchemes' | 'pathItems';

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

  constructor(text: ContractText, value: unknown, path: Path, isQuiet = false) {
    this.#text = text;
    this.value = value;
    this.path = path;
    this.#isQuiet = isQuiet;
  }

  find(message: string, fix: string): Finding {
    return this.#text.find(this.path, message, fix);
  }

  fault(message: string, fix = 'Leave it out'): void {
    if (!this.#isQuiet) this.#text.fault(this.path, message, fix);
  }

  warn(message: string, fix = 'Leave it out'): void {
    if (!this.#isQuiet) this.#text.warn(this.path, message, fix);
  }

  get isObject(): boolean {
    return typeof this.value === 'object' && this.value !== null && !Array.isArray(this.value);
  }

  /** The names of the fields of an object; none of any other value. */
  get names(): string[] {
    return this.isObject ? Object.keys(this.value as Fields) : [];
  }

  has(key: string): boolean {
    return this.isObject && Object.hasOwn(this.value as Fields, key);
  }

  /** A field of an object or an item of an array; its value is undefined if there is none. */
  at(key: string | number): ContractNode {
    const fields = (this.value ?? {}) as Fields;
    const value = Object.hasOwn(fields, key) ? fields[key] : undefined;
    return new ContractNode(this.#text, value, [...this.path, key], this.#isQuiet);
  }

  get #root(): ContractNode {
    return new ContractNode(this.#text, this.#text.value, []);
  }

  /** Checks the value of a discriminator's mapping, and returns the reference that it is, or whose last part it is. */
  refer(text: string): string {
    const $ref = /[#/.]/.test(text) ? text : `#/components/schemas/${text}`;
    new ContractNode(this.#text, { $ref }, this.path, this.#isQuiet).follow('schemas');
    return $ref;
  }

  /**
   * Follows a reference within the document, and a reference there. A reference to nothing is a fault.
   * @param kind - The kind of component that it must refer to.
   * @param count - The number of references that have led here.
   */
  target(kind: Kind, count = 0): ContractNode {
    if (!this.has('$ref')) return this;
    const others = this.names.filter((name) => !/^(\$ref|summary|description|x-.*)$/.test(name)).join(', ');
    const fix = 'Leave that out, or write it in what the reference refers to';
    // OpenAPI does not say what a path item means that has both.
    if (others !== '' && kind === 'pathItems')
      this.fault(`what is next to $ref is not supported here (${others})`, fix);
    else if (others !== '' && kind !== 'schemas')
      this.warn(`OpenAPI ignores what is next to $ref (${others})`, fix);
    return this.follow(kind, count).target(kind, count + 1);
  }

  /**
   * Follows a reference within the document, once. A reference to nothing is a fault.
   * @param kind - The kind of component that it must refer to.
   * @param count - The number of references that have led here.
   */
  follow(kind?: Kind, count = 0): ContractNode {
    const { value: reference } = this.at('$ref');
    if (typeof reference !== 'string')
      return this.#lose('the reference is not a text', 'Write it in quotes: in YAML, # begins a comment');
    if (isOutside(reference)) return this.#lose(...describeReference(reference));
    if (count > maxReferences)
      return this.#lose(`${reference} leads back to itself`, 'Refer to what it is meant to be');
    const steps = stepsOf(reference);
    if (steps === undefined) return this.#loseName(reference, kind);
    let node = this.#root;
    for (const step of steps) {
      // The keys beside a reference take precedence over the part that it refers to.
      while (node.at(step).value === undefined && node.has('$ref')) node = node.follow(undefined, count + 1);
      node = node.at(step);
    }
    if (node.value === undefined) return node.#isQuiet ? node : this.#loseName(reference, kind);
    const [top = 'components', group = '', ...names] = steps;
    const isComponent = top === 'components' && names.length < 2 && !group.startsWith('x-');
    if (kind === undefined || !isComponent || (group === kind && names.length === 1)) return node;
    const fix =
      group === 'schemas' && kind !== 'schemas'
        ? 'Write the reference in a field schema'
        : `Write #/components/${kind}/Name`;
    return this.#lose(`${reference} is not in components/${kind}`, fix);
  }

  /** Reports a faulty reference, and returns a node about which nothing else is reported. */
  #lose(message: string, fix: string): ContractNode {
    this.at('$ref').fault(message, fix);
    return new ContractNode(this.#text, undefined, this.path, true);
  }

  #loseName(reference: string, kind: Kind = 'schemas'): ContractNode {
    const name = stepsOf(reference)?.at(-1) ?? reference.replace('#', '');
    const near = nearest(name, this.#root.at('components').at(kind).names);
    const fix =
      near === undefined ? `Add ${name} to components/${kind}` : `Write #/components/${kind}/${near}`;
    return this.#lose(`${reference} refers to nothing`, fix);
  }

  /**
   * Checks that this is an object with the known fields, apart from extensions; other fields are faults.
   * @param names - Separated by spaces.
   * @param place - The place for other fields that authors may write here by mistake.
   */
  allow(names: string, place?: string): void {
    const allowed = names.split(' ');
    if (!this.isObject) this.#refuse('an object', `Write an object here, as in { ${allowed[0]!}: … }`);
    for (const name of this.names.filter((field) => !allowed.includes(field))) {
      const isExtension = name.startsWith('x-');
      const near = nearest(name, isExtension ? [scopeExtension] : allowed);
      if (isExtension && near === undefined) continue;
      const other =
        place === undefined
          ? 'Leave it out, or begin its name with x-'
          : `Write it ${place}, or leave it out`;
      this.at(name).fault(`${name} is not supported here`, near === undefined ? other : `Write ${near}`);
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
  scalar(key: string | number): string | undefined {
    const { value } = this.at(key);
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  }

  /** A field that must be a text if it is there. */
  text(key: string): string | undefined {
    return this.#typed(key, 'string', 'a text', 'in quotes if it looks like a number') as string | undefined;
  }

  /** A field that must be true or false if it is there. */
  flag(key: string): boolean | undefined {
    return this.#typed(key, 'boolean', 'true or false', 'without quotes') as boolean | undefined;
  }

  /** A field that must be a number if it is there. */
  number(key: string): number | undefined {
    return this.#typed(key, 'number', 'a number', 'without quotes') as number | undefined;
  }

  #typed(key: string, type: string, name: string, quotes: string): unknown {
    const node = this.at(key);
    if (node.value === undefined || typeof node.value === type) return node.value;
    node.fault(`must be ${name}`, `Write ${name}, ${quotes}`);
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
    if (!node.isObject && node.value !== undefined) node.#refuse('an object', 'Write an object here');
    return node.names.map((name) => [name, node.at(name)]);
  }
}
