// Media types, and the ranges of them that a contract may declare.

/** A media type or a range (RFC 9110 sections 8.3.1 and 12.5.1). */
export interface MediaType {
  /** In lower case, without parameters. A range ends with `/*`. */
  readonly type: string;
  /** By name, in lower case. */
  readonly parameters: ReadonlyMap<string, string>;
}

const parameter = /;\s*([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^;\s]*)/g;

/** Parses a media type; a malformed one has no parameters. */
export function parseMediaType(text: string): MediaType {
  const type = text.split(';', 1)[0]!.trim().toLowerCase();
  const found = [...text.matchAll(parameter)].map(([, name = '', value = '']) => {
    const unquoted = value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value;
    return [name.toLowerCase(), unquoted] as const;
  });
  return { type, parameters: new Map(found) };
}

/** Whether a text is a media type or a range, with or without parameters (RFC 6838 section 4.2). */
export function isMediaType(text: string): boolean {
  return /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+\s*(;|$)/.test(text.trim());
}

/** Whether a type is JSON (RFC 6839 section 3.1). */
export function isJson(type: string): boolean {
  return /^application\/([\w.-]+\+)?json(?=$|;)/.test(type);
}

/** Whether a range includes more than one type. */
export function isRange({ type }: MediaType): boolean {
  return type.endsWith('/*');
}

/**
 * Returns the most specific entry that includes a media type: one with its parameters comes before one with its type, then
 * the range of that type, then the range of all types (RFC 9110 section 12.5.1). Of equally specific ones, the first counts.
 * All texts are in UTF-8, whatever a `charset` says.
 */
export function mostSpecific<Entry extends { readonly range: MediaType }>(
  entries: readonly Entry[],
  given: MediaType,
): Entry | undefined {
  return entries
    .filter(({ range }) => includes(range, given))
    .sort((a, b) => precision(b.range) - precision(a.range))[0];
}

function includes({ type, parameters }: MediaType, given: MediaType): boolean {
  const hasType =
    type === '*/*' ||
    type === given.type ||
    (type.endsWith('/*') && given.type.startsWith(type.slice(0, -1)));
  const isGiven = ([name, value]: [string, string]) =>
    name === 'charset' || given.parameters.get(name) === value;
  return hasType && [...parameters].every(isGiven);
}

function precision(range: MediaType): number {
  const steps = range.type === '*/*' ? 0 : isRange(range) ? 1 : 2;
  return 100 * steps + range.parameters.size;
}
