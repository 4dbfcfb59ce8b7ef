// Loads a contract, normalizes it, and reports everything that the server cannot serve.
import { isUtf8 } from 'node:buffer';
import { readSchemes, type SecurityScheme } from './security.js';
import { methods, readOperations, type Operation } from './operations.js';
import { ContractNode } from './document/contract-node.js';
import { Schemas } from './schema/schema-normalizer.js';
import type { Sample, Schema, Use } from './schema/schema.js';
import { ContractText } from './document/contract-text.js';
import { ContractError, type Finding } from './document/finding.js';

/** The parts of an OpenAPI document that the project reads itself. */
export interface OpenApiDocument {
  readonly info: { readonly title: unknown; readonly version: unknown };
  readonly [field: string]: unknown;
}

/** The contract: the bytes of its file, the parsed document, and its normal form, from which the server is made. */
export interface Contract {
  readonly bytes: Buffer;
  readonly document: OpenApiDocument;
  readonly operations: readonly Operation[];
  readonly securitySchemes: Readonly<Record<string, SecurityScheme>>;
  /** Describes a fault of a security scheme, with its place in the contract. */
  readonly findScheme: (name: string, message: string, fix: string) => Finding;
  /** The normal form of a schema in `components`, for a use that it has. */
  readonly schemaOf: (name: string, use: Use) => Schema | undefined;
  /** The methods of all operations, with HEAD for GET. */
  readonly methods: readonly string[];
  /** The names of all headers that responses declare. */
  readonly responseHeaders: readonly string[];
  /** The defaults of requests, which are filled in unchanged. */
  readonly defaults: readonly Sample[];
  /** The schemas whose defaults handlers may have to fill in. */
  readonly unfilled: ReadonlySet<Schema>;
  /** Cases in which the server does something that a reader of the contract may not expect. */
  readonly warnings: readonly Finding[];
}

/**
 * Reads a contract.
 * @param bytes - An OpenAPI 3.0 or 3.1 document in YAML or JSON.
 * @param hasOwnErrors - Whether the service renders errors itself; otherwise the server's form is expected.
 * @throws ContractError with all faults: what is not valid, and what this server does not support.
 */
export function loadContract(bytes: Buffer, hasOwnErrors = false): Contract {
  const isTooLarge = bytes.length > 50_000_000;
  const text = new ContractText(isTooLarge || !isUtf8(bytes) ? '' : bytes.toString('utf8'));
  if (isTooLarge) text.fault([], 'the file has more than 50 MB', 'Divide the API into several');
  else if (!isUtf8(bytes)) text.fault([], 'the text is not UTF-8', 'Save the file as UTF-8');
  const document = new ContractNode(text, text.value, []);
  text.throwFaults();
  const is30 = readVersion(document);
  // Nothing else can be read without the version.
  text.throwFaults();
  checkDocument(document, is30);
  try {
    const components = document.at('components');
    const securitySchemes = readSchemes(components);
    const schemas = new Schemas(is30);
    const operations = readOperations({ document, schemas, is30, hasOwnErrors });
    text.throwFaults();
    const responses = operations.flatMap(({ declaredResponses }) => declaredResponses);
    const headers = responses.flatMap((response) => response.headers.map(({ name }) => name));
    const served = new Set(operations.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : method)));
    return {
      bytes,
      document: text.value as OpenApiDocument,
      operations,
      securitySchemes,
      findScheme: (name, message, fix) => components.at('securitySchemes').at(name).find(message, fix),
      schemaOf: (name, use) => schemas.known(components.at('schemas').at(name).value, use),
      methods: methods.map((method) => method.toUpperCase()).filter((method) => served.has(method)),
      responseHeaders: [...new Set(headers)].sort(),
      defaults: schemas.defaults,
      unfilled: schemas.unfilled,
      warnings: text.warnings,
    };
  } catch (error) {
    // Schemas are read and searched by functions that call themselves for those inside.
    if (!(error instanceof RangeError && error.message.includes('call stack'))) throw error;
    const fault = text.find([], 'schemas are nested too deeply', 'Nest fewer schemas in each other');
    throw new ContractError([fault], text.warnings);
  }
}

/** Returns whether the document is of OpenAPI 3.0; otherwise it is of 3.1. */
function readVersion(document: ContractNode): boolean {
  const version = document.scalar('openapi') ?? '';
  const fix = document.has('swagger')
    ? 'Convert it to OpenAPI 3.0, as swagger2openapi --yaml --outfile openapi.yaml FILE does'
    : 'Give the OpenAPI document of the API, with openapi: 3.0.3 or openapi: 3.1.0, in three numbers';
  if (version === '') document.fault('this is not an OpenAPI document: it has no openapi', fix);
  else if (!/^3\.[01]\.\d+(-[\w.]+)?$/.test(version))
    document.at('openapi').fault(`the version ${version} is not supported`, fix);
  return version.startsWith('3.0');
}

/** Checks the outermost fields. */
function checkDocument(document: ContractNode, is30: boolean): void {
  document.allow(
    `openapi info! servers paths${is30 ? '!' : ''} components security tags externalDocs webhooks jsonSchemaDialect`,
    'in components',
  );
  const kinds =
    'schemas responses parameters examples requestBodies headers securitySchemes links callbacks pathItems';
  if (document.has('components')) document.at('components').allow(kinds);
  if (!document.has('info')) return;
  const info = document.at('info');
  info.allow('title! version! summary description termsOfService contact license');
  for (const field of ['title', 'version']) if (info.scalar(field) === undefined) info.read(field, 'string');
}
