// A queue in which subjects take turns, so that one with many items does not delay the others.

/** Waiting items. The items of one subject leave in the order in which they arrived. */
export class SubjectQueue<Item extends { readonly subject: string }> {
  /** The items of each subject, in the order of their turns. */
  readonly #turns = new Map<string, Item[]>();
  /** The number of items. */
  size = 0;

  add(item: Item): void {
    const items = this.#turns.get(item.subject);
    if (items === undefined) this.#turns.set(item.subject, [item]);
    else items.push(item);
    this.size++;
  }

  /** Removes the next item, and returns it; undefined if there is none. */
  take(): Item | undefined {
    for (const [subject, items] of this.#turns) {
      const item = items.shift();
      this.#turns.delete(subject);
      if (items.length > 0) this.#turns.set(subject, items);
      this.size--;
      return item;
    }
    return undefined;
  }
}
