// Separates the items of a text before it is decoded, as clients join them (RFC 6570 section 3.2.1): a comma that is encoded
// belongs to an item.
import type { Parameter, ParameterPlace } from '../../contract/parameters.js';
import { shapeOf } from '../../contract/schema/shape.js';
import { byName, type Values } from './texts.js';

/**
 * Reads the fields of a query or a form (WHATWG URL section 5.1).
 * @param pairs - The texts between the ampersands.
 * @param delimited - The names of fields whose values become arrays of their items.
 */
export function readPairs(
  pairs: readonly string[],
  delimited: ReadonlySet<string>,
  decode: (text: string) => string,
): Values {
  const sent = pairs.filter((pair) => pair !== '');
  return byName(
    sent.map((pair) => {
      const [start = ''] = pair.split('=', 1);
      const name = decode(start);
      const value = pair.slice(start.length + 1);
      return [name, delimited.has(name) ? value.split(',').map(decode) : decode(value)];
    }),
  );
}

/**
 * Returns the function that replaces values of a request by their items; undefined if none has any.
 * @param path - The path of the operation, as in `/books/{ids}`.
 */
export function createSplitter(
  parameters: readonly Parameter[],
  place: ParameterPlace,
  path: string,
): ((values: Values, url: string) => void) | undefined {
  const names = parameters
    .filter(({ isDelimited, schema }) => {
      const types = shapeOf(schema).types ?? [];
      return isDelimited && (types.includes('array') || types.includes('object'));
    })
    .map(({ name }) => name);
  if (names.length === 0) return undefined;
  if (place === 'query') {
    const delimited = new Set(names);
    return (values, url) => {
      const read = readPairs(url.slice(url.indexOf('?') + 1).split('&'), delimited, decodeLeniently);
      for (const name of names) if (Object.hasOwn(values, name)) values[name] = read[name];
    };
  }
  if (place !== 'path') return undefined;
  const segments = path.split('/');
  return (values, url) => {
    const sent = url.split('?', 1)[0]!.split('/');
    for (const name of names) {
      const at = segments.indexOf(`{${name}}`);
      // From the end, since the path of the server is before it. The router has decoded a part of a segment.
      values[name] =
        at === -1
          ? (values[name] as string).split(',')
          : sent
              .at(at - segments.length)!
              .split(',')
              .map(decodeURIComponent);
    }
  };
}

/** Decodes a text of a query as Fastify does. */
function decodeLeniently(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}
