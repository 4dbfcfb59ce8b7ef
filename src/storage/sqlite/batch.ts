// A batch of writes as one message: for the thread that commits it, and between processes on the way there.
import { plantOf, plantWriteKinds, type PlantWrite } from '../plant-writes.js';

/** Separates the texts of a batch: no text that is stored has it. */
const separator = '\u0000';

/**
 * A batch of writes, column by column: the kinds as places in `plantWriteKinds`, and the texts of a column as one,
 * since cloning many texts is slow.
 */
export interface PackedBatch {
  kinds: Uint8Array;
  subjects: string;
  ids: BigInt64Array;
  plants: string;
}

/** Packs a batch of at least one write. */
export function packBatch(batch: readonly PlantWrite[]): PackedBatch {
  return {
    kinds: Uint8Array.from(batch, ({ kind }) => plantWriteKinds.indexOf(kind)),
    subjects: batch.map(({ subject }) => subject).join(separator),
    ids: BigInt64Array.from(batch, ({ id }) => id),
    plants: batch.map(plantOf).join(separator),
  };
}

/**
 * The writes of a batch, in their order.
 * @throws Error when the batch is incomplete.
 */
export function unpackBatch(batch: PackedBatch): PlantWrite[] {
  const plants = batch.plants.split(separator);
  return batch.subjects.split(separator).map((subject, i) => {
    const kind = plantWriteKinds[batch.kinds[i] ?? -1];
    const id = batch.ids[i];
    const plant = plants[i];
    if (kind === undefined || id === undefined || plant === undefined)
      throw new Error('the batch is incomplete');
    return kind === 'delete' ? { kind, subject, id } : { kind, subject, id, plant };
  });
}
