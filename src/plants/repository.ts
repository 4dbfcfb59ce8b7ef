// The repository of plants: which fields are stored, and what the outcomes of writes mean for plants.
import {
  Documents,
  type Collection,
  type CollectionDefinition,
  type JsonText,
  type Outcomes,
} from 'contract-server';
import type { components, operations } from '../types.gen.js';

export type Plant = components['schemas']['Plant'];

type BodyOf<Operation> = Operation extends {
  requestBody: { content: { 'application/json': infer Body } };
}
  ? Body
  : never;
/** The request body of any operation on plants. */
type PlantBody = { [Id in keyof operations]: BodyOf<operations[Id]> }[keyof operations];
type KeyOf<Type> = Type extends Type ? keyof Type : never;
type Field = Exclude<KeyOf<Plant | PlantBody>, 'id'>;

/**
 * The stored fields, in the order of the text. This fails to compile when the contract adds a field that is missing
 * here, or allows fields with arbitrary names.
 */
const stored = { name: true, tag: true } satisfies Record<Field, string extends Field ? never : true>;

/** The collection of all plants. */
export const plants: CollectionDefinition<'int64'> = {
  name: 'plants',
  id: 'int64',
  column: 'plant',
};

/** The meaning of each outcome of a create; if the id is taken, whether the stored plant is identical or different. */
const creations = {
  inserted: 'created',
  same: 'identical',
  other: 'different',
} as const satisfies Record<Outcomes['absent'], string>;
export type Creation = (typeof creations)[keyof typeof creations];

/** The plants of all subjects. */
export class PlantRepository extends Documents<bigint, Plant> {
  constructor(collection: Collection) {
    super(collection, stored);
  }

  /** Stores a plant, and resolves when it is durable. If the id is taken, nothing changes. */
  async create(subject: string, id: bigint, plant: Plant | JsonText<Plant>): Promise<Creation> {
    return creations[await this.write(subject, id, { when: 'absent', value: plant })];
  }
}
