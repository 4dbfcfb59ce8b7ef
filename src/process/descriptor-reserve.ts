// Keeps file descriptors free for new processes, whatever connections take.
import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';

/**
 * Holds descriptors that are released only while a process is created. Without it, connections that wait for a worker
 * could take all descriptors, and no worker could be created to serve them.
 */
export class DescriptorReserve {
  readonly #size: number;
  readonly #held: number[] = [];

  /** @param size - How many descriptors to hold; fewer are held while there are not so many. */
  constructor(size: number) {
    this.#size = size;
    this.#fill();
  }

  /**
   * Calls a function while the descriptors are free. Nothing else runs meanwhile, so that it gets them.
   * @throws what the function throws.
   */
  use<T>(create: () => T): T {
    for (const fd of this.#held.splice(0)) closeSync(fd);
    try {
      return create();
    } finally {
      this.#fill();
    }
  }

  #fill(): void {
    try {
      while (this.#held.length < this.#size) this.#held.push(openSync(devNull, 'r'));
    } catch {
      // The limit is reached. The next use fills what has become free meanwhile.
    }
  }
}
