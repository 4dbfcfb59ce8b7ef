// Plants, and what a store of them promises. An engine is right when it keeps these promises.
import type { components, paths } from '../contract/types.gen.js';

export type Plant = components['schemas']['Plant'];

type PlantPath = Extract<keyof paths, '/plants' | `/plants/${string}`>;
type BodyOf<Operation> = Operation extends {
  requestBody: { content: { 'application/json': infer Body } };
}
  ? Body
  : never;
/** Whatever a request brings to the plants: a body of any operation on them. */
export type PlantBody = { [Path in PlantPath]: BodyOf<paths[Path][keyof paths[Path]]> }[PlantPath];

/** Part of a list, already rendered: at most 2,500 plants and 256 KiB, though one plant of any length is a page. */
export interface PlantPage {
  /** The plants as JSON, separated by commas, without brackets; to the byte what JSON.stringify gives. */
  readonly json: string;
  /** How many plants there are in it. */
  readonly count: number;
  /** The id behind which the next page begins, which may turn out empty; undefined when nothing follows. */
  readonly next: bigint | undefined;
}

/** The outcomes of a create: of a taken key, whether the stored plant is identical or different. */
export const creations = ['created', 'identical', 'different'] as const;
export type Creation = (typeof creations)[number];

/**
 * The plants of all subjects, keyed by (subject, id).
 *
 * Texts come back unchanged (callers have refused U+0000 and unpaired surrogates, which no engine can keep).
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * it. Every method rejects with StorageError, and with nothing else, when the store cannot do its part.
 */
export interface PlantRepository {
  /**
   * Stores a plant, and resolves once that is durable. When the key is taken, nothing changes, and the outcome says
   * whether the stored plant is the same. Of concurrent calls for one key exactly one gets 'created'.
   */
  create(subject: string, id: bigint, plant: Plant): Promise<Creation>;
  /** Deletes a plant, and resolves once that is durable: true when there was one. */
  delete(subject: string, id: bigint): Promise<boolean>;
  /**
   * One page of the subject's plants in ascending order of id: those after `after`, at most `limit`, and within the
   * bounds of a page (but always one plant when there is one).
   * It bypasses the response serializer because that is where a list's time goes: rendering rows where they are stored
   * costs far less than turning them into objects and back.
   */
  list(subject: string, range: { after?: bigint | undefined; limit: number }): Promise<PlantPage>;
}
