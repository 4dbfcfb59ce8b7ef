// Reads a list from its stream, element by element: constant memory for any length, and a cut-off list is an error.
import { ApiError, ConnectionError } from './errors.js';
import type { Answered } from './sending.js';

/**
 * Reads the elements of an answer as they are asked for; its connection closes when no more of them are.
 * @param signal - The caller's.
 * @param parse - Makes an element of its JSON text.
 * @throws ConnectionError when the list was cut off or stalled, ApiError when the answer is no list.
 */
export async function* readElements<Element>(
  { data, answer, attempts, limits }: Answered<ReadableStream<Uint8Array>>,
  signal: AbortSignal | undefined,
  parse: (json: string) => Element,
): AsyncGenerator<Element, void, undefined> {
  const call = { attempts, mayHaveTakenEffect: false, requestId: answer.requestId };
  const list = new ArraySplitter();
  const decoder = new TextDecoder();
  let count = 0;
  const reader = data.getReader();
  const read = async () => {
    const { done, value } = await limits.within(reader.read());
    const elements = list.push(decoder.decode(value, { stream: !done })).map(parse);
    if (done && !list.ended) throw new Error('its end is missing');
    count += elements.length;
    return { done, elements };
  };

  try {
    for (;;) {
      const { done, elements } = await read().catch((cause: unknown) => {
        signal?.throwIfAborted();
        if (cause instanceof SyntaxError) throw new ApiError(call, answer);
        throw new ConnectionError(call, new Error(`the list was cut off after ${count} elements`, { cause }));
      });
      for (const element of elements) {
        signal?.throwIfAborted();
        yield element;
      }
      if (done) return;
    }
  } finally {
    // What has failed cannot be cancelled, and need not.
    reader.cancel().catch(() => undefined);
  }
}

/** Splits a JSON array that arrives in pieces into its elements. */
class ArraySplitter {
  /** How many brackets and braces are open: 1 between elements. */
  #depth = 0;
  #quoted = false;
  #escaped = false;
  /** Whether an element, or the comma before it, has come. */
  #begun = false;
  #ended = false;
  /** What earlier pieces had of the element that has not ended. */
  #element = '';

  /** Whether the array's closing bracket has come: without it, the array was cut off. */
  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Takes the next piece of the text, of any length.
   * @returns The JSON text of each element that ends in it. Whether that is well-formed is for JSON.parse to say.
   * @throws SyntaxError when the text is not one array.
   */
  push(piece: string): string[] {
    const elements: string[] = [];
    let start = 0;
    const take = (end: number) => {
      const element = this.#element + piece.slice(start, end);
      this.#element = '';
      start = end + 1;
      return element;
    };
    for (let i = 0; i < piece.length; i++) {
      const char = piece[i]!;
      if (this.#quoted) {
        if (this.#escaped) this.#escaped = false;
        else if (char === '\\') this.#escaped = true;
        else if (char === '"') this.#quoted = false;
      } else if (char === '"') {
        this.#quoted = true;
      } else if (char === '[' || char === '{') {
        this.#depth++;
        if (this.#depth > 1) continue;
        if (this.#ended || char !== '[' || !isBlank(take(i))) throw notAnArray();
      } else if (char === ']' || char === '}') {
        this.#depth--;
        if (this.#depth > 0) continue;
        if (this.#depth < 0 || char !== ']') throw notAnArray();
        const last = take(i);
        if (this.#begun || !isBlank(last)) elements.push(last);
        this.#ended = true;
      } else if (char === ',' && this.#depth === 1) {
        elements.push(take(i));
        this.#begun = true;
      }
    }
    this.#element += piece.slice(start);
    if (this.#depth === 0 && !isBlank(this.#element)) throw notAnArray();
    return elements;
  }
}

const isBlank = (text: string) => text.trim() === '';
const notAnArray = () => new SyntaxError('the text is not a JSON array');
