// Checks every error against the contract, and writes errors as the service renders them.
import { mostSpecific, parseMediaType } from '../contract/media-type.js';
import type { Operation } from '../contract/operations.js';
import { keysOf } from '../contract/responses.js';
import {
  ApiError,
  catalogue,
  notImplementedEntry,
  withStatus,
  writeError,
  type ErrorEntry,
  type ErrorFacts,
  type ErrorKind,
  type ErrorRenderer,
  type RenderedError,
  type WrittenError,
} from '../base/errors.js';
import { reportNothing, type Report } from '../base/events.js';
import { textOf as describe } from './request/validation/fault-messages.js';
import type { Compiler } from './request/validation/validation.js';

/** The errors of a service, and how it renders them. */
export interface OwnErrors {
  /** Its errors besides those of the catalogue. One takes the place of an entry with its name. */
  readonly errors: Readonly<Record<string, ErrorEntry>>;
  /** Renders every error; by default, they have the form of this package. */
  readonly render?: ((error: ErrorFacts) => RenderedError) | undefined;
  /** Receives what is thrown by `render`, or what is wrong with its result. */
  readonly report?: Report;
}

/**
 * Checks every error, without a detail, against what the contract declares for its status, and returns the function that
 * writes errors. If a service fails to render an error, that is reported, and the error has the form of this package.
 * @param operations - The operations of the contract.
 * @throws Error naming the error that does not match, or whose code is taken or belongs to no status of an error.
 */
export function createErrorRenderer(
  compiler: Compiler,
  operations: readonly Pick<Operation, 'errors' | 'statusOf'>[],
  { errors, render, report = reportNothing }: OwnErrors,
): ErrorRenderer {
  const write = render === undefined ? writeError : (error: ApiError) => textOf(render(error));
  const findFault = createCheck(compiler, operations);
  const sent = Object.entries<ErrorEntry>({ ...catalogue, ...errors }).flatMap(([name, entry]) => {
    const error = new ApiError(Object.hasOwn(errors, name) ? entry : (name as ErrorKind));
    const statuses = new Set([error.statusCode, ...operations.map(({ statusOf }) => statusOf(error))]);
    return [...statuses].map((status): [string, ApiError] => [name, withStatus(error, status)]);
  });
  // A finished service does not have this error, so its contract need not have a place for it.
  checkCodes([...sent, ['notImplemented', notImplementedEntry]]);
  for (const [name, error] of sent) {
    const fault = findFault(error.statusCode, write(error));
    if (fault !== undefined) throw new Error(`Error ${name} does not match the contract: ${fault}`);
  }
  if (render === undefined) return writeError;
  return (error) => {
    try {
      return write(error);
    } catch (fault) {
      report({ type: 'error not rendered', error, fault });
      return writeError(error);
    }
  };
}

/** @throws Error naming an entry whose code is taken or belongs to no status of an error. */
function checkCodes(entries: readonly [string, ErrorEntry][]): void {
  const names = new Map<number, string>();
  for (const [name, { code }] of entries) {
    const taken = names.get(code);
    if (taken !== undefined)
      throw new Error(
        `The errors ${taken} and ${name} have the same code, ${code}. Give each its own; catalogue has those of the server`,
      );
    if (!Number.isInteger(code) || code < 400_00 || code > 599_99)
      throw new Error(
        `The code of the error ${name} is not an HTTP status from 400 to 599 times 100, plus a number: ${code}`,
      );
    names.set(code, name);
  }
}

/** Returns the function that describes what is wrong with an error that was written, or returns undefined. */
function createCheck(compiler: Compiler, operations: readonly Pick<Operation, 'errors'>[]) {
  const schemas = operations.flatMap(({ errors }) =>
    errors.flatMap(({ contents }) => contents.map(({ schema }) => schema)),
  );
  const validators = new Map(
    [...new Set(schemas)].map((schema) => [schema, compiler.compile(schema, 'json')]),
  );
  return (status: number, { mediaType, text }: WrittenError): string | undefined => {
    const type = parseMediaType(mediaType);
    for (const { errors } of operations) {
      const declared = keysOf(status).map((key) => errors.find((error) => error.key === key));
      const { contents } = declared.find((error) => error !== undefined) ?? { contents: [] };
      if (contents.length === 0) continue;
      const content = mostSpecific(contents, type);
      if (content === undefined)
        return `it is ${mediaType}, not ${contents.map(({ name }) => name).join(' or ')}`;
      const value: unknown = content.isJson ? JSON.parse(text) : text;
      const fault = describe(validators.get(content.schema)!.faultsOf(value));
      if (fault !== '') return fault;
    }
    return undefined;
  };
}

/** Writes what a service rendered: JSON, unless its media type is another one. */
function textOf({ mediaType, body }: RenderedError): WrittenError {
  const isText = typeof body === 'string' && !/[/+]json *(;|$)/i.test(mediaType);
  return { mediaType, text: isText ? body : JSON.stringify(body) };
}
