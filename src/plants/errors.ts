// Defines the errors of the operations on plants.
import { catalogue, type ErrorEntry } from '../errors.js';

/** The errors that only plants have. */
export const plantErrors = {
  idTaken: { code: 40010, message: 'You already have a different plant with this id.' },
  plantExists: {
    code: 40011,
    message: 'You already have exactly this plant: an earlier request created it.',
  },
  plantNotFound: { code: 40400, message: 'You have no plant with this id.' },
} as const satisfies Record<string, ErrorEntry>;

/** All errors that the operations on plants can return. */
export const allErrors = { ...catalogue, ...plantErrors } as const;
