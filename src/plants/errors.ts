// Defines the errors of the operations on plants.
import { catalogue, type ErrorEntry } from 'contract-server';

/** The errors that only plants have, and what clients can do after an unknown outcome. */
export const plantErrors = {
  idTaken: { code: 40010, message: 'You already have a different plant with this id.' },
  plantExists: {
    code: 40011,
    message: 'You already have exactly this plant.',
  },
  unknownOutcome: {
    code: 50302,
    message:
      'The outcome is unknown: the request may have taken effect. Retry; 40011, or 40400 for a deletion, means that it did.',
  },
  plantNotFound: { code: 40400, message: 'You have no plant with this id.' },
} as const satisfies Record<string, ErrorEntry>;

/** All errors that the operations on plants can return. */
export const allErrors = { ...catalogue, ...plantErrors } as const;
