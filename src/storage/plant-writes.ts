// The writes of plants and their outcomes: what the engines' writers have in common.
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

/** A write that waits to be committed; `plant` is its JSON. */
type AnyPlantWrite =
  | { readonly kind: 'create'; readonly subject: string; readonly id: bigint; readonly plant: string }
  | { readonly kind: 'delete'; readonly subject: string; readonly id: bigint };
export type PlantWrite<Kind extends PlantWriteKind = PlantWriteKind> = Extract<AnyPlantWrite, { kind: Kind }>;

export type PlantGroupWriter = GroupWriter<PlantWrite, typeof plantOutcomes>;

/** The code of an outcome: its place in the list of its kind. */
export function outcomeCode<Kind extends PlantWriteKind>(kind: Kind, outcome: PlantOutcome<Kind>): number {
  return plantOutcomes[kind].indexOf(outcome);
}

/** The JSON that a write brings; '' when it brings none. */
export function plantOf(write: PlantWrite): string {
  return write.kind === 'delete' ? '' : write.plant;
}

/** About how much memory a write takes while it waits, in bytes. */
export function bytesOf(write: PlantWrite): number {
  return 2 * (write.subject.length + plantOf(write).length) + 100;
}

/** The writing methods of the plants, which both engines share; an engine adds how it reads. */
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
