// The writes of plants and their outcomes, which both engines share.
import {
  creations,
  type Creation,
  type Plant,
  type PlantPage,
  type PlantRepository,
} from '../domain/plants.js';
import type { GroupWriter } from './group-writer.js';
import { plantJson } from './plant-json.js';

const outcomeLists = { create: creations, delete: ['deleted', 'absent'] } as const;

export type PlantWriteKind = keyof typeof outcomeLists;
export type PlantOutcome<Kind extends PlantWriteKind> = (typeof outcomeLists)[Kind][number];

/** The outcomes of each kind of write. */
export const plantOutcomes: { readonly [Kind in PlantWriteKind]: readonly PlantOutcome<Kind>[] } =
  outcomeLists;
export const plantWriteKinds = Object.keys(plantOutcomes) as PlantWriteKind[];

/** A write to commit; `plant` is the JSON of the plant. */
type AnyPlantWrite =
  | { readonly kind: 'create'; readonly subject: string; readonly id: bigint; readonly plant: string }
  | { readonly kind: 'delete'; readonly subject: string; readonly id: bigint };
export type PlantWrite<Kind extends PlantWriteKind = PlantWriteKind> = Extract<AnyPlantWrite, { kind: Kind }>;

export type PlantGroupWriter = GroupWriter<PlantWrite, typeof plantOutcomes>;

/** The code of an outcome: its index in the list of its kind. */
export function outcomeCode<Kind extends PlantWriteKind>(kind: Kind, outcome: PlantOutcome<Kind>): number {
  return plantOutcomes[kind].indexOf(outcome);
}

/** The JSON of the plant in a write; '' for a delete. */
export function plantOf(write: PlantWrite): string {
  return write.kind === 'delete' ? '' : write.plant;
}

/** The approximate memory that a waiting write takes, in bytes. */
export function bytesOf(write: PlantWrite): number {
  return 2 * (write.subject.length + plantOf(write).length) + 100;
}

/** The write methods of a plant repository. Each engine adds `list`. */
export abstract class GroupWrittenPlants implements PlantRepository {
  readonly #writer: PlantGroupWriter;

  constructor(writer: PlantGroupWriter) {
    this.#writer = writer;
  }

  create(subject: string, id: bigint, plant: Plant): Promise<Creation> {
    return this.#writer.write({ kind: 'create', subject, id, plant: plantJson(plant) });
  }

  async delete(subject: string, id: bigint): Promise<boolean> {
    return (await this.#writer.write({ kind: 'delete', subject, id })) === 'deleted';
  }

  abstract list(...parameters: Parameters<PlantRepository['list']>): Promise<PlantPage>;
}
