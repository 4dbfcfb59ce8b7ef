// A queue in which subjects take turns, so that one with many items does not delay the others.

/** Items that wait. Those of one subject leave in the order in which they arrived. */
export class SubjectQueue<Item extends { readonly subject: string }> {
  /** The items of each subject; the first subject is next. */
  readonly #waiting = new Map<string, Item[]>();
  #size = 0;

  /** The number of items. */
  get size(): number {
    return this.#size;
  }

  add(item: Item): void {
    const items = this.#waiting.get(item.subject);
    if (items === undefined) this.#waiting.set(item.subject, [item]);
    else items.push(item);
    this.#size++;
  }

  /** Removes the next item, and returns it; undefined if there is none. */
  take(): Item | undefined {
    const [next] = this.#waiting;
    if (next === undefined) return undefined;
    const [subject, items] = next;
    const item = items.shift();
    this.#waiting.delete(subject);
    if (items.length > 0) this.#waiting.set(subject, items);
    this.#size--;
    return item;
  }

  /** Adds items that were taken, before all others. */
  putBack(items: readonly Item[]): void {
    if (items.length === 0) return;
    const others = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    this.#size = 0;
    for (const item of [...items, ...others]) this.add(item);
  }
}
