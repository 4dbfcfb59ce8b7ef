// Collects a body that arrives in pieces.

/** How many pieces a body may have in any case. */
const freePieces = 10_000;
/** The mean length of further pieces, in bytes. */
const meanLength = 64;
const none = Buffer.alloc(0);

/** The bytes of a body, in one Buffer: as objects of their own, short pieces would take a hundred times their length. */
export class ArrivedBytes {
  length = 0;
  #pieces = 0;
  #buffer: Buffer = none;
  readonly #expected: number;

  /** @param expected - How many there will be in all; NaN if that is unknown. */
  constructor(expected: number) {
    this.#expected = expected;
  }

  /** The memory that they take, in bytes. */
  get capacity(): number {
    return this.#buffer.length;
  }

  /** Whether they arrive in so many pieces that these cost more than the bytes. */
  get isShredded(): boolean {
    return this.#pieces > freePieces + this.length / meanLength;
  }

  add(piece: Buffer): void {
    const end = this.length + piece.length;
    this.#pieces++;
    // Most bodies are one piece.
    if (this.length === 0) this.#buffer = piece;
    else {
      if (end > this.#buffer.length) this.#grow(end);
      piece.copy(this.#buffer, this.length);
    }
    this.length = end;
  }

  #grow(needed: number): void {
    const most = this.#expected >= needed ? this.#expected : Infinity;
    const larger = Buffer.allocUnsafe(Math.min(2 * needed, most));
    this.#buffer.copy(larger, 0, 0, this.length);
    this.#buffer = larger;
  }

  /** Returns the bytes, and forgets them. */
  take(): Buffer {
    const bytes = this.#buffer.subarray(0, this.length);
    this.#buffer = none;
    return bytes;
  }
}
