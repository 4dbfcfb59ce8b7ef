// Stores plants as JSON, and says what the outcomes of writes mean for them.
import { exactJson } from '../contract/json-text.js';
import type { components, paths } from '../contract/types.gen.js';
import type { Collection, CollectionDefinition, OutcomeOf, Page, PageRange } from '../storage/interface.js';

export type Plant = components['schemas']['Plant'];

type PlantPath = Extract<keyof paths, '/plants' | `/plants/${string}`>;
type BodyOf<Operation> = Operation extends {
  requestBody: { content: { 'application/json': infer Body } };
}
  ? Body
  : never;
/** The request body of any operation on plants. */
type PlantBody = { [Path in PlantPath]: BodyOf<paths[Path][keyof paths[Path]]> }[PlantPath];
type KeyOf<Type> = Type extends Type ? keyof Type : never;
type Field = Exclude<KeyOf<Plant | PlantBody>, 'id'>;

/**
 * The stored fields, in the order of the text. This fails to compile when the contract adds a field that is missing
 * here, or allows fields with arbitrary names.
 */
const stored = { name: true, tag: true } satisfies Record<Field, string extends Field ? never : true>;
const fields = Object.keys(stored) as (keyof typeof stored)[];

/** The collection of all plants. */
export const plants: CollectionDefinition<'int64'> = { name: 'plants', id: 'int64', column: 'plant', fields };

/** What the outcomes of a create mean; if the id is taken, whether the stored plant is identical or different. */
const creations = {
  inserted: 'created',
  same: 'identical',
  other: 'different',
} as const satisfies Record<OutcomeOf<{ when: 'absent'; text: string }>, string>;
export type Creation = (typeof creations)[keyof typeof creations];

/** The plants of all subjects. Its methods reject with StorageError. */
export class PlantRepository {
  readonly #documents: Collection;

  constructor(documents: Collection) {
    this.#documents = documents;
  }

  /** Stores a plant, and resolves when that is durable. If the id is taken, nothing changes. */
  async create(subject: string, id: bigint, plant: Plant): Promise<Creation> {
    return creations[await this.#documents.write(subject, id, { when: 'absent', text: plantJson(plant) })];
  }

  /** Deletes a plant, and resolves when that is durable; to false if there was no such plant. */
  async delete(subject: string, id: bigint): Promise<boolean> {
    return (await this.#documents.write(subject, id, { when: 'present', text: null })) === 'deleted';
  }

  /** Returns one page of the subject's plants in ascending order of id. */
  list(subject: string, range: PageRange): Promise<Page> {
    return this.#documents.page(subject, range);
  }
}

/** The JSON of a plant: the output of JSON.stringify for its stored fields in order, except that bigints are exact. */
function plantJson(plant: Plant): string {
  let members = '';
  for (const key of fields) {
    const text = exactJson(plant[key]);
    if (text !== undefined) members += `${members === '' ? '' : ','}"${key}":${text}`;
  }
  return `{${members}}`;
}
