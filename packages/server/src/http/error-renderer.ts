// Checks every error against the contract, and writes errors as the service renders them.
import { mostSpecific, parseMediaType } from '../contract/media-type.js';
import type { Operation } from '../contract/operations.js';
import { keysOf, type ErrorContents } from '../contract/responses.js';
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
import type { Report } from '../base/events.js';
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
 * writes errors. With a detail, a rendering may still fail. Then it is reported, and the error is sent without its detail.
 * @param operations - The operations of the contract.
 * @throws Error naming the error that does not match, or whose code is taken or belongs to no status of an error.
 */
export function createErrorRenderer(
  compiler: Compiler,
  operations: readonly Pick<Operation, 'errors' | 'statusOf'>[],
  { errors, render, report }: OwnErrors,
): ErrorRenderer {
  const sent = Object.entries<ErrorEntry>({ ...catalogue, ...errors }).flatMap(([name, entry]) => {
    const error = new ApiError(Object.hasOwn(errors, name) ? entry : (name as ErrorKind));
    const statuses = new Set([error.statusCode, ...operations.map(({ statusOf }) => statusOf(error))]);
    return [...statuses].map((status): [string, ApiError] => [name, withStatus(error, status)]);
  });
  // A finished service does not have this error, so its contract need not have a place for it.
  checkCodes([...sent, ['notImplemented', notImplementedEntry]]);
  const write = render === undefined ? writeError : (error: ApiError) => textOf(render(error));
  const declared = operations.flatMap(({ errors }): DeclaredError[] => {
    // The server's own form is the same for every status.
    if (render === undefined) return errors.map((one) => ({ ...one, key: 'default', keys: ['default'] }));
    const keys = errors.map(({ key }) => key);
    return errors.map((one) => ({ ...one, keys }));
  });
  const findFault = createCheck(compiler, declared);
  for (const [name, error] of sent) {
    const fault = findFault(error.statusCode, write(error));
    if (fault !== undefined) throw new Error(`Error ${name} does not match the contract: ${fault}`);
  }
  if (render === undefined) return writeError;
  const writeChecked: ErrorRenderer = (error) => {
    const written = write(error);
    const fault = findFault(error.statusCode, written);
    if (fault === undefined) return written;
    throw new TypeError(`what renderError returned does not match the contract: ${fault}`);
  };
  return (error) => {
    try {
      return writeChecked(error);
    } catch (fault) {
      report?.({ type: 'error not rendered', error, fault });
    }
    try {
      return writeChecked(new ApiError(error.kind));
    } catch {
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

/** The contents of an error that an operation declares, and all of its keys: a status has the most specific one. */
interface DeclaredError extends ErrorContents {
  readonly keys: readonly string[];
}

/** Returns the function that describes what is wrong with an error that was written, or returns undefined. */
function createCheck(compiler: Compiler, declared: readonly DeclaredError[]) {
  const schemas = [...new Set(declared.flatMap(({ contents }) => contents.map(({ schema }) => schema)))];
  const validators = new Map(schemas.map((schema) => [schema, compiler.compile(schema, 'json')]));
  const distinct = new Map(
    declared.map((one) => {
      const parts = one.contents.map(({ name, schema }) => `${name} ${schemas.indexOf(schema)}`);
      return [[one.key, one.keys.join(' '), ...parts].join(), one];
    }),
  );
  return (status: number, { mediaType, text }: WrittenError): string | undefined => {
    const ofStatus = keysOf(status);
    for (const { key, keys, contents } of distinct.values()) {
      if (key !== ofStatus.find((one) => keys.includes(one))) continue;
      const found = mostSpecific(contents, parseMediaType(mediaType));
      if (found === undefined)
        return `it is ${mediaType}, not ${contents.map(({ name }) => name).join(' or ')}`;
      const value: unknown = found.isJson ? JSON.parse(text) : text;
      const fault = describe(validators.get(found.schema)!.faultsOf(value));
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
