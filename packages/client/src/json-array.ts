// Parses a streamed list element by element, in constant memory, and reports a list that is cut off as an error.
import { ApiError, ConnectionError, Fault, type Answer } from './errors.js';
import type { Limits } from './limits.js';

/** A response whose body has not been read. */
interface Unread {
  response: Response;
  answer: Answer;
  /** The number of the attempt, from 1. */
  attempts: number;
  /** Limits the waits for the body. */
  limits: Limits;
}

/** The settings for reading a list. */
interface Reading<Element> {
  /** The caller's signal. */
  signal: AbortSignal | undefined;
  /** Maximum number of bytes that may arrive without completing an element. */
  maxBytes: number;
  /** Parses the JSON text of one element. */
  parse: (json: string) => Element;
}

/**
 * Reads the elements of a response on demand. When the consumer stops, the connection closes.
 * @throws ConnectionError when the list is cut off, or no element is complete in time; ApiError when the body is not a
 * list of such elements, or one is too long.
 */
export async function* readElements<Element>(
  { response, answer, attempts, limits }: Unread,
  { signal, maxBytes, parse }: Reading<Element>,
): AsyncGenerator<Element, void, undefined> {
  const call = { attempts, mayHaveTakenEffect: false, requestId: answer.requestId };
  const list = new ArraySplitter();
  const decoder = new TextDecoder();
  let count = 0;
  const reader = response.body!.getReader();
  /** Reads until an element is complete, or the list ends. */
  const read = async () => {
    for (let bytes = 0; ;) {
      const { done, value } = await reader.read();
      const elements = list.push(decoder.decode(value, { stream: !done })).map(parse);
      if (done && !list.ended) throw new Error('the closing bracket is missing');
      count += elements.length;
      if (done || elements.length > 0) return { done, elements };
      bytes += value.byteLength;
      if (bytes > maxBytes) throw new Fault(`an element is longer than ${maxBytes} bytes`);
    }
  };

  try {
    for (;;) {
      const { done, elements } = await limits.within(read()).catch((cause: unknown) => {
        signal?.throwIfAborted();
        if (cause instanceof Fault) throw new ApiError(call, answer, cause.message);
        throw new ConnectionError(call, new Error(`the list was cut off after ${count} elements`, { cause }));
      });
      for (const element of elements) {
        signal?.throwIfAborted();
        yield element;
      }
      if (done) return;
    }
  } finally {
    // Cancelling a failed stream rejects, and is unnecessary.
    reader.cancel().catch(() => undefined);
  }
}

/** Splits a JSON array that arrives in pieces into its elements. */
export class ArraySplitter {
  /** The number of open brackets and braces: 1 between elements. */
  #depth = 0;
  #quoted = false;
  #escaped = false;
  /** Whether a comma has arrived, so that another element must follow. */
  #begun = false;
  #ended = false;
  /** The part of the current element that earlier pieces contained. */
  #element = '';

  /** Whether the array's closing bracket has arrived; without it, the array is cut off. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Whether an element has begun whose end has not arrived. */
  get insideElement(): boolean {
    return this.#depth > 1 || this.#quoted;
  }

  /**
   * Adds the next piece of the text, of any length.
   * @returns The JSON text of each element that ends in this piece, unchecked: JSON.parse detects malformed elements.
   * @throws Fault when the text is not one array.
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
    if (this.#depth > 0) return elements;
    if (!isBlank(this.#element)) throw notAnArray();
    this.#element = '';
    return elements;
  }
}

/** Whether a text is empty or consists of white space. */
export const isBlank = (text: string): boolean => text.trim() === '';
const notAnArray = () => new Fault('the body is not of type array');
