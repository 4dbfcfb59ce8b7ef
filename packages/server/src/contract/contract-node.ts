// A node of a contract: reads what is there, follows references, and reports faults where they are.
import leven from 'leven';
import type { Finding, Path, ContractText } from './contract-text.js';

type Fields = Readonly<Record<string, unknown>>;

/** The one extension that the server reads. */
export const scopeExtension = 'x-required-scope';

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
    const fields = (this.value ?? {}) as Fields;
    const value = Object.hasOwn(fields, key) ? fields[key] : undefined;
    return new ContractNode(this.#text, value, [...this.path, key], this.#isQuiet);
  }

  /** Checks the value of a discriminator's mapping: a reference, or the name of a schema. */
  refer(text: string): void {
    const $ref = /[#/.]/.test(text) ? text : `#/components/schemas/${text}`;
    new ContractNode(this.#text, { $ref }, this.path, this.#isQuiet).#find(new Set());
  }

  /** Follows a reference within the document, and a reference there. A reference to nothing is a fault. */
  target(seen = new Set<unknown>()): ContractNode {
    if (this.scalar('$ref') === undefined) return this;
    if (seen.has(this.value)) return this.#lose();
    seen.add(this.value);
    return this.follow().target(seen);
  }

  /**
   * Follows a reference within the document, once. A reference to nothing is a fault.
   * @param seen - The references that have been followed on the way here.
   */
  follow(seen = new Set<unknown>()): ContractNode {
    const steps = stepsOf(this.scalar('$ref') ?? '');
    if (steps !== undefined) this.#text.refer(steps);
    return this.#find(seen);
  }

  /** Whether a reference to this component, or to a place in it, has been followed. */
  get isReferred(): boolean {
    return this.#text.isReferred(this.path);
  }

  #find(seen: Set<unknown>): ContractNode {
    const text = this.scalar('$ref');
    if (text === undefined) return this;
    if (!text.startsWith('#')) {
      const fix = 'Bundle the contract into one file, as "redocly bundle" does';
      this.at('$ref').fault(`${text} is outside of this document`, fix);
      return this.#nothing;
    }
    const steps = stepsOf(text);
    if (seen.has(this.value) || steps === undefined) return this.#lose();
    seen.add(this.value);
    let node = new ContractNode(this.#text, this.#text.value, []);
    for (const step of steps) {
      // What is next to a reference comes before what it refers to.
      while (node.at(step).value === undefined && node.scalar('$ref') !== undefined) node = node.follow(seen);
      node = node.at(step);
    }
    return node.value === undefined ? this.#lose() : node;
  }

  #lose(): ContractNode {
    const fix = 'Refer to a component, as in #/components/schemas/Name';
    this.at('$ref').fault(`${this.scalar('$ref')!} refers to nothing`, fix);
    return this.#nothing;
  }

  /** What a reference to nothing refers to. */
  get #nothing(): ContractNode {
    return new ContractNode(this.#text, undefined, this.path, true);
  }

  /**
   * Checks that this is an object with the known fields, apart from extensions; other fields are faults.
   * @param names - Separated by spaces.
   */
  allow(names: string): void {
    const known = names.split(' ');
    if (!this.isObject) {
      this.fault('must be an object', 'Write an object here');
      return;
    }
    for (const name of Object.keys(this.value as Fields)) {
      if (known.includes(name)) continue;
      const isExtension = name.startsWith('x-');
      const near = (isExtension ? [scopeExtension] : known).find((one) => leven(one, name) < 3);
      if (isExtension && near === undefined) continue;
      const fix = near === undefined ? 'Leave it out, or begin its name with x-' : `Write ${near}`;
      this.at(name).fault(`${name} is not supported here`, fix);
    }
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
    const isQuoted = typeof node.value === 'string';
    const quotes = type === 'string' ? ', in quotes' : isQuoted ? ', without quotes' : '';
    node.fault(`must be ${name}`, `Write ${name} here${quotes}`);
    return undefined;
  }

  /** The items of a field that must be an array if it is there. */
  list(key: string, fix = 'Write an array here'): ContractNode[] {
    const node = this.at(key);
    if (Array.isArray(node.value)) return node.value.map((_, i) => node.at(i));
    if (node.value !== undefined) node.fault('must be an array', fix);
    return [];
  }

  /** The entries of a field that must be an object if it is there. */
  entries(key: string): [string, ContractNode][] {
    const node = this.at(key);
    if (node.isObject) return Object.keys(node.value as Fields).map((name) => [name, node.at(name)]);
    if (node.value !== undefined) node.fault('must be an object', 'Write an object here');
    return [];
  }
}

/** The steps of a reference within the document; undefined if it is none. */
function stepsOf(reference: string): string[] | undefined {
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
