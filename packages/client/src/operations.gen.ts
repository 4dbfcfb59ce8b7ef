// Generated from openapi.yaml by "npm run generate"; do not edit.
import type { operations as Contract } from './types.gen.js';

/** The part of a schema that the client checks. */
export interface Shape {
  readonly type?: string;
  readonly nullable?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  /** The name of another shape. */
  readonly $ref?: string;
}

/** How an operation is sent, and what its successful responses contain. */
export interface Route {
  readonly method: string;
  /** The path, with its parameters in braces. */
  readonly path: string;
  /** The shape of the body by status; null if there is none. */
  readonly successes: Readonly<Record<number, Shape | null>>;
}

export const routes: { readonly [Name in keyof Contract]: Route } = {
  listPlants: {
    method: 'GET',
    path: '/plants',
    successes: { '200': { type: 'array', items: { $ref: 'Plant' } }, '304': null },
  },
  createPlant: { method: 'POST', path: '/plants', successes: { '200': { $ref: 'Plant' } } },
  deletePlant: { method: 'DELETE', path: '/plants/{id}', successes: { '204': null } },
};

/** The schemas that have names. */
export const shapes: Readonly<Record<string, Shape>> = {
  Plant: {
    type: 'object',
    required: ['name'],
    properties: { name: { type: 'string' }, tag: { type: 'string' } },
  },
};

/** The version of this client. */
export const version = '1.0.0';

/** The error codes, by their names. */
export const errorCodes = {
  malformedRequest: 40000,
  malformedJson: 40001,
  invalidBody: 40002,
  unsupportedMediaType: 40003,
  missingBody: 40004,
  bodyTooLarge: 40005,
  invalidQuery: 40006,
  invalidPath: 40007,
  malformedTarget: 40008,
  invalidHost: 40009,
  idTaken: 40010,
  plantExists: 40011,
  missingToken: 40100,
  invalidToken: 40101,
  insufficientScope: 40300,
  plantNotFound: 40400,
  pathNotFound: 40401,
  methodNotAllowed: 40500,
  requestTimeout: 40800,
  expectationFailed: 41700,
  tooManyRequests: 42900,
  headersTooLarge: 43100,
  internal: 50000,
  unavailable: 50300,
  overloaded: 50301,
  unknownOutcome: 50302,
} as const;
