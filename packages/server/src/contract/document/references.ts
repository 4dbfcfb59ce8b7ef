// Checks all references of a document, also those that no operation uses.
import type { Path } from './contract-text.js';

type Fields = Readonly<Record<string, unknown>>;

/** Fields whose values are data, in which `$ref` is no reference. */
const dataFields = /^(example|examples|default|enum|const|value|x-.*)$/;

/**
 * Reports references that lead out of a document, and names that objects of JavaScript have in another way.
 * @param report - Called with the path of each fault, and its remedy.
 */
export function checkReferences(
  document: unknown,
  report: (path: Path, message: string, fix: string) => void,
): void {
  // YAML aliases put the same object at several places.
  const seen = new Set<object>();
  const check = (value: unknown, path: Path, isData: boolean): void => {
    if (value === '__proto__' && !isData)
      report(path, 'the name __proto__ is not supported', 'Write another name, which clients must then send');
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    const { $ref } = value as Fields;
    if (typeof $ref === 'string' && !$ref.startsWith('#') && !isData)
      report([...path, '$ref'], ...describeReference($ref));
    for (const [name, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) check(name, [...path, name], isData);
      // A response may be called `default`.
      const holdsData = dataFields.test(name) && path.at(-1) !== 'responses';
      check(inner, [...path, name], isData || holdsData);
    }
  };
  check(document, [], false);
}

/** The steps of a reference (RFC 6901 section 6); undefined if it does not stay within the document. */
export function stepsOf(reference: string): string[] | undefined {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  return reference.slice(1).split('/').slice(1).map(unescape);
}

function unescape(step: string): string {
  let text = step;
  try {
    text = decodeURIComponent(step);
  } catch {
    // Not encoded: the reference is looked up as it is.
  }
  return text.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Whether a reference names another document. */
export function isOutside(reference: string): boolean {
  return /^[^#]*[./]/.test(reference);
}

/** Describes the fault of a reference that does not begin with `#`. */
export function describeReference(reference: string): [message: string, fix: string] {
  if (!isOutside(reference))
    return [`${reference} refers to nothing`, 'Write a reference to a component, which begins with #'];
  const fix =
    'Bundle the contract into one file with exact integers, as docs/contract.md of contract-server shows';
  return [`${reference} is outside of this document`, fix];
}
