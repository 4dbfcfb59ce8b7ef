// A queue in which subjects take turns, so that one with many items does not delay the others.

/** Waiting items. The items of one subject leave in the order in which they arrived. */
export class SubjectQueue<Item extends { readonly subject: string }> {
  readonly #waiting = new Map<string, Item[]>();
  /** The items of each subject, in the order of their turns. */
  readonly #turns: Item[][] = [];
  #size = 0;

  /** The number of items. */
  get size(): number {
    return this.#size;
  }

  add(item: Item): void {
    const items = this.#waiting.get(item.subject);
    if (items === undefined) {
      const first = [item];
      this.#waiting.set(item.subject, first);
      this.#turns.push(first);
    } else items.push(item);
    this.#size++;
  }

  /** Removes the next item, and returns it; undefined if there is none. */
  take(): Item | undefined {
    const items = this.#turns.shift();
    const item = items?.shift();
    if (items === undefined || item === undefined) return undefined;
    if (items.length > 0) this.#turns.push(items);
    else this.#waiting.delete(item.subject);
    this.#size--;
    return item;
  }
}
