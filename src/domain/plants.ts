// Defines plants and the guarantees that every storage engine must give.
import type { components, paths } from '../contract/types.gen.js';

export type Plant = components['schemas']['Plant'];

type PlantPath = Extract<keyof paths, '/plants' | `/plants/${string}`>;
type BodyOf<Operation> = Operation extends {
  requestBody: { content: { 'application/json': infer Body } };
}
  ? Body
  : never;
/** The request body of any operation on plants. */
export type PlantBody = { [Path in PlantPath]: BodyOf<paths[Path][keyof paths[Path]]> }[PlantPath];

/** A rendered part of a list: at most 2,500 plants and 256 KiB, but always at least one plant if any is left. */
export interface PlantPage {
  /** The plants as JSON, separated by commas, without brackets; the same bytes as from JSON.stringify. */
  readonly json: string;
  /** The number of plants in `json`. */
  readonly count: number;
  /** The id after which the next page begins, which may be empty; undefined if nothing follows. */
  readonly next: bigint | undefined;
}

/** The outcomes of a create; if the key is taken, whether the stored plant is identical or different. */
export const creations = ['created', 'identical', 'different'] as const;
export type Creation = (typeof creations)[number];

/**
 * The plants of all subjects, keyed by (subject, id).
 *
 * Strings are returned unchanged. Callers must refuse U+0000 and unpaired surrogates, which no engine can store.
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * that write. If an operation fails, its method rejects with StorageError and no other error.
 */
export interface PlantRepository {
  /**
   * Stores a plant, and resolves when the write is durable. If the key is taken, nothing changes, and the outcome says
   * whether the stored plant is the same. Of concurrent calls for one key, exactly one returns 'created'.
   */
  create(subject: string, id: bigint, plant: Plant): Promise<Creation>;
  /** Deletes a plant, and resolves when that is durable; to false if there was no such plant. */
  delete(subject: string, id: bigint): Promise<boolean>;
  /**
   * Returns one page of the subject's plants in ascending order of id: those after `after`, at most `limit`. The page
   * is already JSON because parsing the stored texts and serializing them again would dominate the cost of a list.
   */
  list(subject: string, range: { after?: bigint | undefined; limit: number }): Promise<PlantPage>;
}
