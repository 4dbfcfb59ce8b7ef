// A node of a contract: reads what is there, follows references, and reports faults where they are.
import { closestMatch } from 'leven';
import type { Path, ContractText } from './contract-text.js';
import { stepsOf, type Finding } from './finding.js';

type Fields = Readonly<Record<string, unknown>>;

/** The types of fields, and how messages name them. */
interface Types {
  readonly string: string;
  readonly boolean: boolean;
  readonly number: number;
}
const typeNames = { string: 'a text', boolean: 'true or false', number: 'a number' };

/** The kinds of components that references lead to. */
type Kind =
  'schemas' | 'responses' | 'parameters' | 'requestBodies' | 'headers' | 'securitySchemes' | 'pathItems';

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

  /** A field, if there is one; otherwise this, which lacks it or has it by other means. */
  placeOf(key: string): ContractNode {
    return this.has(key) ? this.at(key) : this;
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
    // OpenAPI does not say what a path item means that has both.
    if (others !== '' && kind !== 'schemas')
      this[kind === 'pathItems' ? 'fault' : 'warn'](
        `what is next to $ref is not read (${others})`,
        'Leave it out, or write it in what the reference refers to',
      );
    return this.follow(kind, count).target(kind, count + 1);
  }

  /** Follows a reference within the document, once (see `target`). */
  follow(kind?: Kind, count = 0): ContractNode {
    const { value: reference } = this.at('$ref');
    if (typeof reference !== 'string')
      return this.#lose('the reference is not a text', 'Write it in quotes: in YAML, # begins a comment');
    if (/^[^#]*[./]/.test(reference))
      return this.#lose(
        `${reference} is outside of this document`,
        'Bundle the contract into one file with exact integers, as docs/contract.md of contract-server shows',
      );
    // So long a chain of references is a circle.
    if (count > 100)
      return this.#lose(`${reference} leads back to itself`, 'Refer to what it is meant to be');
    const steps = stepsOf(reference) ?? [reference.replace('#', '')];
    const root = new ContractNode(this.#text, this.#text.value, []);
    let node = root;
    for (const step of steps) {
      // The keys beside a reference take precedence over the part that it refers to.
      while (node.at(step).value === undefined && node.has('$ref')) node = node.follow(undefined, count + 1);
      node = node.at(step);
    }
    if (node.#isQuiet || kind === undefined) return node;
    const [top, group] = steps;
    if (node.value === undefined) {
      const name = steps.at(-1)!;
      const near = closestMatch(name, root.at('components').at(kind).names, { maxDistance: 1 });
      const fix =
        near === undefined ? `Add ${name} to components/${kind}` : `Write #/components/${kind}/${near}`;
      return this.#lose(`${reference} refers to nothing`, fix);
    }
    if (top !== 'components' || group === kind || steps.length !== 3) return node;
    const fix = group === 'schemas' ? 'Write it in a field schema' : `Write #/components/${kind}/Name`;
    return this.#lose(`${reference} is not in components/${kind}`, fix);
  }

  /** Reports a faulty reference, and returns a node about which nothing else is reported. */
  #lose(message: string, fix: string): ContractNode {
    this.at('$ref').fault(message, fix);
    return new ContractNode(this.#text, undefined, this.path, true);
  }

  /**
   * Checks that this is an object with the known fields, apart from extensions; other fields are faults.
   * @param names - Separated by spaces; those with an exclamation mark must be there.
   * @param place - The place for other fields that authors may write here by mistake.
   */
  allow(names: string, place?: string): void {
    const allowed = names.replaceAll('!', '').split(' ');
    if (!this.isObject) this.#refuse('an object', `Write an object here, as in { ${allowed[0]!}: … }`);
    for (const name of this.names.filter((field) => !allowed.includes(field))) {
      const near = closestMatch(name, allowed, { maxDistance: 1 });
      if (name.startsWith('x-') && near === undefined) continue;
      const other = place === undefined ? 'begin its name with x-' : `write it ${place}`;
      this.at(name).fault(
        `${name} is not supported here`,
        near === undefined ? `Leave it out, or ${other}` : `Write ${near}`,
      );
    }
    for (const [, name] of names.matchAll(/\b(\w+)!/g))
      if (this.isObject && !this.has(name!)) this.fault(`${name} is missing`, `Write ${name}`);
  }

  /** Reports that this has another type. */
  #refuse(name: string, fix: string): void {
    if (this.value === null && !this.#text.isJson)
      this.fault('is empty', 'Write below it what it contains, with more indentation');
    else this.fault(`must be ${name}`, fix);
  }

  /** A field as a text; undefined if it is neither a text nor a number. */
  scalar(key: string): string | undefined {
    const { value } = this.at(key);
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  }

  /** A field that must be of a type if it is there. */
  read<Type extends keyof Types>(key: string | number, type: Type): Types[Type] | undefined {
    const node = this.at(key);
    if (node.value === undefined || typeof node.value === type) return node.value as Types[Type] | undefined;
    const name = typeNames[type];
    node.fault(`must be ${name}`, `Write ${name}, ${type === 'string' ? 'in' : 'without'} quotes`);
    return undefined;
  }

  /** The items of a field that must be an array if it is there. */
  list(key: string, fix = 'Write an array here: a dash before each item, or [ ] around all'): ContractNode[] {
    const node = this.at(key);
    if (Array.isArray(node.value)) return node.value.map((_, i) => node.at(i));
    if (node.value !== undefined) node.#refuse('an array', fix);
    return [];
  }

  /** The items of a field that must be an array of texts if it is there. */
  texts(key: string, fix?: string): string[] {
    return this.list(key, fix).flatMap((_, i) => this.at(key).read(i, 'string') ?? []);
  }

  /** The entries of a field that must be an object if it is there. */
  entries(key: string): [string, ContractNode][] {
    const node = this.at(key);
    if (!node.isObject && node.value !== undefined) node.#refuse('an object', 'Write an object here');
    if (node.has('__proto__'))
      node.at('__proto__').fault('the name __proto__ is not supported', 'Write another name');
    return node.names.map((name) => [name, node.at(name)]);
  }
}
