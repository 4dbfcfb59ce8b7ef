// What a contract may not contain prevents startup, and what is served in another way than one may expect is a warning:
// each with its place and a remedy. docs/contract.md lists what is not supported.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { contract } from '../support/contract-check.js';
import { ContractError, loadContract, type Finding } from '../support/contract-reader.js';
import { partOf, type Edits } from '../support/edited.js';
import { engines, sharedStorage, temporaryFolder } from '../support/engines.js';
import { buildApp } from '../support/service.js';
import { createGarden, gardenBytes, gardenDocument, loadEdited } from '../support/garden/garden.js';

const about = partOf(gardenDocument, '/paths/~1about/get') as object;
const putBed = '/paths/~1beds~1{bed}/put';
const putOperation = partOf(gardenDocument, putBed) as Record<string, unknown>;
const putContent = `${putBed}/requestBody/content`;
const responses = `${putBed}/responses`;
const bedSchema = '/components/schemas/Bed';
const extra = `${bedSchema}/properties/extra`;
const listBeds = '/paths/~1beds/get';
const q = `${listBeds}/parameters/7`;
const text = { type: 'string' };
const texts = { type: 'array', items: text };
const file = { type: 'string', format: 'binary' };
const int64 = { type: 'integer', format: 'int64' };
const failed = '/components/responses/Failed';
const error = { $ref: '#/components/schemas/Error' };
const failure = { $ref: `#${failed}` };

const closed = { type: 'object', additionalProperties: false };
const id = { name: 'id', in: 'path', required: true, schema: text };

/** Changes replaceBed; undefined removes. */
const replaceBed = (changes: object): Edits => ({ [putBed]: { ...putOperation, ...changes } });
/** Adds a property to its body. */
const field = (schema: unknown): Edits => ({ [extra]: schema });
/** Changes the scheme of most operations. */
const scheme = (value: object): Edits => ({ '/components/securitySchemes/apiKey': value });
const formType = 'application/x-www-form-urlencoded';
/** Makes a form of the body. */
const form = (properties: object, encoding?: object, type = formType): Edits => ({
  [`${putContent}/${type.replace('/', '~1')}`]: {
    schema: { type: 'object', properties },
    ...(encoding && { encoding }),
  },
});
/** Adds a parameter to listBeds. */
const parameter = (value: object): Edits => ({ [q]: { name: 'q', in: 'query', ...value } });

/**
 * Changes of the garden's contract, the message of the first fault or warning, its place below the first change, and what
 * to write instead.
 */
type Case = [Edits, message: string, below?: string, fix?: string];

/** In 3.1, this bound has another form. */
const version31: Edits = {
  '/openapi': '3.1.0',
  '/paths/~1seeds/get/parameters/3/schema/exclusiveMinimum': undefined,
};
/** The schema of describeGarden's response. */
const aboutSchema = '/paths/~1about/get/responses/200/content/application~1json/schema';

const soil = { $ref: '#/components/schemas/Soil' };
const asText =
  'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change';
const asFields = 'Write multipart/form-data with type: object, and a property for each field';
const asFiles = 'Write multipart/form-data with a field for each file, or format: byte';

/** Cases of what prevents startup, by the items of docs/contract.md; they may name what to write instead. */
const refused: Record<string, Case[]> = {
  'a version other than 3.0 and 3.1': [[{ '/openapi': '3.2.0' }, 'the version 3.2.0 is not supported']],
  'a field that OpenAPI does not have, or a misspelled `x-required-scope`': [
    [replaceBed({ response: {} }), 'response is not supported here', '/response', 'Write responses'],
    [replaceBed({ consumes: [] }), 'consumes is not supported here', '/consumes'],
    [replaceBed({ 'x-required-scop': 'a' }), 'x-required-scop is not supported here', '/x-required-scop'],
    [
      { '/definitions': {} },
      'definitions is not supported here',
      '',
      'Leave it out, or write it in components',
    ],
    [parameter({ schema: text, type: 'a' }), 'type is not supported here', '/type'],
    [{ '/security': 'apiKey' }, 'must be an array'],
    [replaceBed({ responses: [] }), 'must be an object', '/responses'],
    [
      replaceBed({ responses: { 200: 'Done' } }),
      'must be an object',
      '/responses/200',
      'Write an object here, as in { description: … }',
    ],
    [
      { [`${putBed}/requestBody/required`]: 'yes' },
      'must be true or false',
      '',
      'Write true or false, without quotes',
    ],
    [parameter({ in: 'body', schema: {} }), 'in is missing or not valid', '/in'],
  ],
  'a `$ref` that is not a string, or that leads to another file or to nothing': [
    [
      { [`${responses}/200`]: { $ref: null } },
      'the reference is not a text',
      '/$ref',
      'Write it in quotes: in YAML, # begins a comment',
    ],
    [field({ items: { $ref: 'a.yaml' } }), 'a.yaml is outside of this document', '/items/$ref'],
    [{ [listBeds]: { $ref: 'a.yaml#/Bed' } }, 'a.yaml#/Bed is outside of this document', '/$ref'],
    [field({ $ref: 'Beds' }), 'Beds refers to nothing', '/$ref', 'Write #/components/schemas/Bed'],
    [field({ $ref: 'Pond' }), 'Pond refers to nothing', '/$ref', 'Add Pond to components/schemas'],
    [field({ $ref: `#${extra}` }), `#${extra} leads back to itself`, '/$ref'],
    [field(failure), `#${failed} is not in components/schemas`, '/$ref', 'Write #/components/schemas/Name'],
    [
      { [`${responses}/400`]: error },
      '#/components/schemas/Error is not in components/responses',
      '/$ref',
      'Write it in a field schema',
    ],
  ],
  'a path that does not begin with `/`, or has adjacent parameters, a query or special characters': [
    ...['~1beds~1{bed}{id}', '~1beds~1a b', '~1~1beds'].map((path): Case => [
      { [`/paths/${path}`]: { get: about } },
      'a path of this form is not supported',
      '',
      "Let clients use another, with separate parameters, and only letters, digits and -._~:@!$&'()+=,;",
    ]),
    [{ '/paths/soil': { get: about } }, 'a path of this form is not supported', '', 'Write /soil'],
    [
      { '/paths/~1beds#all': { get: about } },
      'a path of this form is not supported',
      '',
      'End it before the ? or #, and write a parameter with in: query for each name after it, if need be in the operation of the path that is there already: URLs stay',
    ],
  ],
  'a server whose path has special characters': [
    [{ '/servers': [{ url: '/v1|beta' }] }, '/v1|beta has no usable path', '/0/url'],
    [{ '/servers': [{ url: 'https://{a}/{a}' }] }, '/{a} has no usable path', '/0/url'],
    [
      { '/servers': [{ url: '/{a}', variables: { a: { default: {} } } }] },
      'default is missing',
      '/0/variables/a',
    ],
  ],
  'fields next to the `$ref` of a path item': [
    [
      { '/paths/~1more': { $ref: '#/x-more', get: about }, '/x-more': { put: about } },
      'what is next to $ref is not read (get)',
      '',
      'Leave it out, or write it in what the reference refers to',
    ],
  ],
  'a path parameter that is not in the path, or a parameter that is declared twice': [
    [
      replaceBed({ parameters: [{ ...id, name: 'bath' }] }),
      'the path parameter bath is not in the path',
      '/parameters/0',
      'Write {bath} in the path, where another name may stand for it, or leave it out',
    ],
    [parameter({ name: 'shady', schema: text }), 'the parameter query shady is declared twice'],
  ],
  'the name `__proto__`': [
    [
      { [bedSchema]: JSON.parse('{"type":"object","properties":{"__proto__":{}}}') as unknown },
      'the name __proto__ is not supported',
      '/properties/__proto__',
    ],
    [parameter({ name: '__proto__', schema: text }), 'the name __proto__ is not supported', '/name'],
  ],
  'a response without `description`, `tags` that is not a list of strings, `oauth2` without `flows`': [
    [replaceBed({ responses: { 200: {} } }), 'description is missing', '/responses/200', 'Write description'],
    [replaceBed({ tags: [1] }), 'must be a text', '/tags/0', 'Write a text, in quotes'],
    [scheme({ type: 'oauth2' }), 'flows is missing'],
  ],
  'an operationId, or a method and path, that occurs twice': [
    [
      { [`${putBed}/operationId`]: 'listBeds' },
      'the operationId listBeds is also that of GET /beds',
      '',
      'Write another one in one of them: methods of generated clients are named after it',
    ],
    [
      {
        '/paths/~1{id}': {
          servers: [{ url: '/x' }, { url: '/beds' }],
          put: { ...putOperation, parameters: [id], operationId: 'b' },
        },
      },
      'another path with this method matches the same URLs',
      '/put',
    ],
  ],
  'a parameter that is an object': [
    [
      parameter({ in: 'header', schema: { type: 'object' } }),
      'object is not supported here',
      '/schema',
      asText,
    ],
    [
      parameter({ schema: { type: 'object' }, style: 'deepObject' }),
      'object is not supported here',
      '/schema',
      'Write a parameter for each name that clients send instead, such as filter[color]: requests stay, but types of generated clients change',
    ],
    [parameter({}), 'schema is missing'],
  ],
  'a parameter that may or may not be an object': [
    [
      parameter({ schema: { oneOf: [text, { type: 'object' }] } }),
      'string or object is not supported here',
      '/schema',
      asText,
    ],
  ],
  'a parameter whose items are arrays or objects': [
    [
      parameter({ schema: { type: 'array', items: texts } }),
      'the items are arrays or objects, which OpenAPI does not say how to write',
      '/schema',
      asText,
    ],
  ],
  'the styles `label`, `matrix`, `spaceDelimited` and `pipeDelimited`': [
    [
      replaceBed({ parameters: [{ ...id, name: 'bed', style: 'label' }] }),
      'the style label is not supported here',
      '/parameters/0/style',
      'Write simple, or for the same URLs type: string, and read the text in the handler',
    ],
    [
      parameter({ schema: texts, style: 'pipeDelimited' }),
      'the style pipeDelimited is not supported here',
      '/style',
      'Write form, or for the same URLs type: string, and read the text in the handler',
    ],
  ],
  'a parameter with a `content` other than JSON, or an array in a cookie': [
    ...[{}, { 'application/json': {}, 'text/plain': {} }, { 'text/plain': { schema: text } }].map(
      (content): Case => [
        parameter({ content }),
        'a parameter is JSON, or has a schema',
        '/content',
        'Write schema with type: string',
      ],
    ),
    [parameter({ in: 'cookie', schema: texts }), 'an array in a cookie is not supported', '/schema', asText],
  ],
  'a body on GET, in 3.1': [
    [
      { [`${listBeds}/requestBody`]: putOperation['requestBody'], ...version31 },
      'a body is not supported for GET',
    ],
  ],
  'an object in another media type than JSON and forms': [
    ...Object.entries({ 'application/xml': asText, 'multipart/mixed': asFields }).map(([type, fix]): Case => [
      { [putContent]: { [type]: { schema: { type: 'object' } } } },
      `${type} is not supported`,
      '',
      fix,
    ]),
    [{ [putContent]: {} }, 'has no media type'],
  ],
  'a form that is not an object, has a file inside of a field, has files but is not `multipart/form-data`, or has `style` or `explode` in its `encoding`':
    [
      [{ [putContent]: { [formType]: { schema: texts } } }, `${formType} is not supported`, '', asFields],
      [form({ a: file }), 'the field a is a file', '/schema', asFiles],
      [
        form({ a: { ...texts, items: { properties: { b: file } } } }, undefined, 'multipart/form-data'),
        'the field a has a file inside',
        '/schema',
        asFiles,
      ],
      [
        form({ a: texts }, { a: { explode: false } }),
        'style and explode are not supported in forms',
        '/encoding/a',
        'Leave style and explode out: clients send a field for each item, and objects as JSON',
      ],
    ],
  'a media type that HTTP does not have': ['json', 'application/json, version=1'].map((type): Case => [
    { [putContent]: { [type]: {} } },
    `${type} is not a media type`,
    `/${type.replace('/', '~1')}`,
    'Write a media type such as application/json, and schema in it',
  ]),
  'a response header that is an object, or has `content`': [
    [
      { [`${responses}/200/headers`]: { 'X-A': { schema: { type: 'object' } } } },
      'an object in a header is not supported',
      '/X-A/schema',
    ],
    [
      { [`${responses}/200/headers`]: { 'X-A': { content: {} } } },
      'content is not supported here',
      '/X-A/content',
    ],
  ],
  'an `anyOf` or `oneOf` without alternatives, or a `discriminator` that leads to nothing': [
    [field({ anyOf: [] }), 'allows no value', '/anyOf'],
    [
      field({ oneOf: [text], discriminator: { propertyName: 'kind', mapping: { a: 'Nothing' } } }),
      '#/components/schemas/Nothing refers to nothing',
      '/discriminator/mapping/a/$ref',
    ],
  ],
  '`$id` and `$dynamicRef`': [
    [field({ $dynamicRef: '#a' }), '$dynamicRef is not supported here', '/$dynamicRef'],
    [field({ $id: 'a' }), '$id is not supported here', '/$id'],
  ],
  'keywords that JSON Schema does not have': [
    [field({ type: 'string', patern: 'x' }), 'patern is not supported here', '/patern', 'Write pattern'],
    [
      field({ type: 'bool' }),
      '"bool" is not a type',
      '/type',
      'Write one of "null", "boolean", "integer", "number", "string", "array", "object"',
    ],
    [{ ...field({ type: ['string', null] }), ...version31 }, 'null is not a type', '/type'],
    [
      field({ required: true }),
      'must be an array',
      '/required',
      'List the names of the required properties in the object that has them, next to properties',
    ],
    [field({ type: 'string', minLength: -1 }), 'must be a count', '/minLength'],
    [{ '/info/title': {} }, 'must be a text'],
    [field({ type: 'number', multipleOf: 0 }), 'must be above 0', '/multipleOf'],
    [field({ type: 'object', additionalProperties: null }), 'must be a schema', '/additionalProperties'],
  ],
  'an empty `enum`': [[field({ type: 'string', enum: [], default: 'a' }), 'allows no value', '/enum']],
  'a `const` that is not in `enum`': [
    [{ ...field({ const: 'a', enum: ['b', 'c'] }), ...version31 }, 'is not in enum', '/const'],
  ],
  'a `default` of the right type that its schema does not allow': [
    [
      field({ type: 'integer', maximum: 3, default: 5, 'x-note': 'kept' }),
      'the default does not match its schema: it must be an integer from -9007199254740991 to 3',
      '/default',
      'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
    ],
    [
      { ...field({ allOf: [soil], maxLength: 3 }), '/components/schemas/Soil/default': 'clay' },
      'the default does not match its schema: it must have at most 3 characters',
    ],
    [
      parameter({ schema: { ...texts, items: { ...text, format: 'date' }, default: ['now'] } }),
      'the default does not match its schema: 0 must match format "date"',
      '/schema/default',
    ],
  ],
  'a schema that contains itself outside of properties and items': [
    { allOf: [text, soil] },
    { anyOf: [soil] },
    { oneOf: [text, soil] },
    { not: soil },
    { dependentSchemas: { a: soil } },
  ].map((schema): Case => [
    { '/components/schemas/Soil': schema, ...version31 },
    'the schema contains itself',
  ]),
  'parts of `allOf` that contradict each other, or give a number two formats': [
    [field({ allOf: [text, { type: 'object' }] }), 'a value cannot be string and object at the same time'],
    [
      field({ allOf: [int64, { type: 'integer' }] }),
      'a value cannot have the format int64 and be another number at the same time',
    ],
    [
      field({
        allOf: [text, int64].map((color) => ({ properties: { leaf: { properties: { color } } } })),
      }),
      'leaf.color cannot be string and integer at the same time',
    ],
  ],
  'a `pattern` in a request, or of names in a response, that is not matched in linear time': [
    [
      field({ type: 'string', pattern: '(' }),
      '( is not supported: Unterminated group',
      '/pattern',
      'Write a regular expression of ECMAScript, with the flag u',
    ],
    [
      { [aboutSchema]: { type: 'object', patternProperties: { 'a(?=b)': {} } }, ...version31 },
      'a(?=b) is not supported: it looks around, (?=…)',
      '/patternProperties/a(?=b)',
      'Write allOf with one pattern each, with not if it must not match',
    ],
  ],
  'an integer that programs round, as a bound of int64 or in `enum`': [
    [field({ ...int64, maximum: 2 ** 53 + 2 }), 'is an integer that programs round', '/maximum'],
    [field({ maximum: 2 ** 60 }), 'is an integer that programs round', '/maximum'],
    [field({ ...int64, enum: [2 ** 60] }), 'is an integer that programs round', '/enum/0'],
  ],
  'a status that HTTP does not have': [
    [replaceBed({ responses: undefined }), 'responses is missing'],
    [{ [`${responses}/600`]: { description: 'x' } }, '600 is not a status'],
  ],
  'an undefined security scheme, or one that is not `http`, `apiKey`, `oauth2` or `openIdConnect`': [
    [
      replaceBed({ security: [{ api_key: [] }] }),
      'api_key is not a security scheme of the contract',
      '/security/0/api_key',
      'Add it to components/securitySchemes, as in api_key: { type: http, scheme: bearer }',
    ],
    [
      scheme({ type: 'bearer' }),
      'the security scheme "bearer" is not supported',
      '',
      'Write type: http with scheme: bearer or basic, or apiKey, oauth2 or openIdConnect',
    ],
    [scheme({ type: 'apiKey', in: 'body', name: 'X' }), 'an apiKey is in a header, query or cookie'],
  ],
  'a security scheme whose name has characters other than letters, digits, `.`, `-` and `_`': [
    [{ '/components/securitySchemes/a b': { type: 'http', scheme: 'basic' } }, '"a b" cannot be a name here'],
  ],
  'a scope on an operation that needs no caller': ['about', 'seeds'].map((path): Case => [
    { [`/paths/~1${path}/get/x-required-scope`]: 'beds:read' },
    'an operation that needs no caller cannot require a scope',
  ]),
  'an operation without a handler, a scheme without a verifier, a scope that no caller can have': [
    ...['plantBed', 'toString'].map((operationId): Case => [
      replaceBed({ operationId }),
      `Operation ${operationId} of the contract has no handler`,
    ]),
    [
      {
        '/components/securitySchemes/magic': { type: 'http', scheme: 'basic' },
        ...replaceBed({ security: [{ magic: [] }] }),
      },
      'the verifier of magic is missing',
    ],
    [
      replaceBed({ 'x-required-scope': 'beds:dig' }),
      'Operation replaceBed requires scope beds:dig, which no caller can have',
    ],
    [
      replaceBed({ security: [{ gardenAuth: ['seeds:dig'] }] }),
      'Operation replaceBed requires scope seeds:dig, which no caller can have',
    ],
  ],
};

const otherBody = 'errors of the server have another body: an integer "error" and a text "message"';
/** Without security, and without scopes, which need it. */
const noSecurity: Edits = {
  ...replaceBed({ 'x-required-scope': undefined }),
  '/security': undefined,
  '/paths/~1beds~1{bed}/get/x-required-scope': undefined,
};

const unfilled = 'it is not filled in: its schema, or another part, refuses it';

/** Cases of warnings. */
const warned: Record<string, Case[]> = {
  'no `security`': [
    [
      noSecurity,
      'no security is declared: the operation is public',
      '',
      'Write security: [] if it is to be so, or [{}, { bearerAuth: [] }] if callers may also be known',
    ],
  ],
  'no success status, or no `responses` in 3.1': [
    [
      { ...replaceBed({ responses: undefined }), ...version31 },
      'no responses are declared: success is 200, without content',
    ],
    [
      replaceBed({ responses: { default: failure } }),
      'no success status is declared: success is 200, without content',
      '/responses',
    ],
  ],
  'OPTIONS, except for CORS, and TRACE': [
    [{ '/paths/~1beds/options': about }, 'OPTIONS is not served, except for CORS'],
    [{ '/paths/~1beds/trace': about }, 'TRACE is not served, except for CORS'],
  ],
  'a `default` that is of another type, or not in `enum`, or that another part refuses': [
    [
      field({
        anyOf: [{ type: 'object', properties: { a: { enum: ['y'] } } }, { type: 'object' }],
        properties: { a: { type: 'string', default: 'x' } },
      }),
      unfilled,
      '/properties/a/default',
    ],
    ...[
      { allOf: [soil], default: null },
      { type: 'integer', default: 1.5 },
      { type: 'string', nullable: true, enum: ['a', null], default: 'b' },
      { oneOf: [{ type: 'string', enum: ['a'] }, { type: 'integer' }], default: 'b' },
    ].map((schema): Case => [field(schema), unfilled, '/default']),
    [parameter({ schema: { type: 'integer', default: '5' } }), unfilled, '/schema/default'],
    [{ ...field({ ...soil, default: null }), ...version31 }, unfilled, '/default'],
  ],
  'an undeclared path parameter': [
    [replaceBed({ parameters: undefined }), 'the path parameter bed is not declared: it is any text'],
  ],
  'a property that another, closed part of the schema does not have': [
    [
      field({ allOf: [{ ...closed, properties: { a: text } }], properties: { b: text } }),
      'no object can have b: another part has no additional properties',
    ],
    [
      field({ properties: { id: text }, oneOf: [closed, { ...closed, properties: { a: text } }] }),
      'no object can have id: another part has no additional properties',
    ],
  ],
  'a nullable type whose `enum` lacks null': [
    field({ type: 'string', nullable: true, enum: ['a'] }),
    { ...field({ type: ['string', 'null'], enum: ['a'] }), ...version31 },
  ].map((edits): Case => [edits, 'null is not in enum: it is refused', '/enum']),
  'fields next to the `$ref` of a parameter, body, response or header': [
    [
      { [q]: { $ref: '#/x-q', required: true }, '/x-q': { name: 'q', in: 'query', schema: text } },
      'what is next to $ref is not read (required)',
    ],
    [
      { [`${responses}/400`]: { ...failure, description: 'No.', headers: {} } },
      'what is next to $ref is not read (headers)',
    ],
  ],
  'a body on GET or DELETE, in 3.0': [
    [
      { [`${listBeds}/requestBody`]: putOperation['requestBody'] },
      'OpenAPI 3.0 ignores a body of GET: it is not read',
    ],
    [
      { '/paths/~1beds~1{bed}/delete/requestBody': putOperation['requestBody'] },
      'OpenAPI 3.0 ignores a body of DELETE: it is not read',
      '',
      'Write parameters, or POST with a path of its own; openapi: 3.1.0 allows a body of DELETE',
    ],
  ],
  "a status of the server (400, 401, 403, 429, 500, 503) without a response, or errors of another form than the server's":
    [
      [
        { [responses]: { 200: { description: 'x' }, '4XX': failure } },
        '500, 503 can be returned without being declared',
      ],
      [
        { [responses]: { 200: { description: 'x' }, 422: failure } },
        '401, 403, 429, 500, 503 can be returned without being declared',
      ],
      ...[
        { 'application/json': { schema: { required: ['error', 'message', 'hint'] } } },
        { 'application/json': { schema: { oneOf: [{ type: 'object' }, text] } } },
        { 'application/problem+json': {} },
      ].map((content): Case => [{ [`${failed}/content`]: content }, otherBody]),
    ],
  'media types that cannot be served, next to others, in a request': [
    [
      { [putContent]: { 'application/json': { schema: error }, 'application/xml': { schema: error } } },
      'application/xml is refused',
    ],
  ],
  '`style` and `explode` of arrays and objects in `multipart/form-data`, in 3.0': [
    { style: 'form', explode: false },
    { style: 'pipeDelimited' },
  ].map((encoding): Case => [
    form({ a: texts }, { a: encoding }, 'multipart/form-data'),
    'OpenAPI 3.0 ignores style and explode here',
    '/encoding/a',
  ]),
  'a path such as `/plants/:id`': [
    [
      { '/paths/~1beds~1:id': { get: { ...about, operationId: 'b' } } },
      ':id is a text like others in the path',
    ],
  ],
  'a format that the server does not know': [
    [field({ type: 'string', format: 'iban' }), 'the format iban is not checked', '/format'],
    [
      field({ type: 'integer', format: 'int16' }),
      'the format int16 is not checked: it is any integer from -9007199254740991 to 9007199254740991',
      '/format',
    ],
  ],
  'a `pattern` in a response that is not one of ECMAScript, or not linear': [
    ['(?i)a', 'Invalid group'],
    ['^(.)\\1$', 'it repeats what a group has matched, \\1'],
  ].map(([pattern = '', reason]): Case => [
    { [`${aboutSchema}/properties/name`]: { ...text, pattern } },
    `${pattern} is not checked in responses: ${reason}`,
    '/pattern',
  ]),
  'keywords next to `$ref` in 3.0': [
    [field({ ...soil, nullable: true }), 'OpenAPI 3.0 ignores what is next to $ref (nullable)'],
    [field({ allOf: [soil], nullable: true }), 'nullable has no effect without a type', '/nullable'],
  ],
  '`nullable` in 3.1': [
    [
      { ...field({ type: 'string', nullable: true }), ...version31 },
      'OpenAPI 3.1 has no nullable: it is read as in 3.0',
      '/nullable',
      'Write type: ["string","null"]',
    ],
  ],
};

/** Builds the app of the garden's contract with changes; returns the faults that prevent it. */
async function faultsOf(edits: Edits): Promise<readonly Finding[]> {
  try {
    const contract = loadEdited(gardenDocument, edits);
    const storage = await sharedStorage(engines[0]!);
    await (await buildApp({ ...createGarden().options, storage, contract })).close();
    return [];
  } catch (error) {
    t.ok(error instanceof ContractError, (error as Error).stack ?? '');
    const { faults, warnings } = error as ContractError;
    const twice = warnings.filter(({ pointer }) => faults.some((fault) => fault.pointer === pointer));
    t.strictSame(twice, [], 'what is an error is no warning, too');
    return faults;
  }
}

t.test('an unsupported feature prevents startup, and the message names the place and a remedy', async (t) => {
  t.strictSame(await faultsOf({}), []);
  for (const [row, cases] of Object.entries(refused)) {
    for (const [edits, message, below = '', fix] of cases) {
      const pointer = Object.keys(edits)[0]! + below;
      const faults = await faultsOf(edits);
      const [first] = faults;
      t.strictSame([first?.pointer, first?.message], [pointer, message], row);
      t.notMatch(JSON.stringify(faults), '[object Object]', 'names what is there');
      t.match(first, { line: 1, column: Number, fix: fix ?? /^[A-Z].*[^.]$/ });
    }
  }
});

t.test('what is served in another way than one may expect is a warning with a remedy', async (t) => {
  t.strictSame(loadEdited(gardenDocument).warnings, []);
  const emptied = { '/paths/~1beds~1{bed}/delete/responses/204/content': {} };
  t.strictSame(loadEdited(gardenDocument, emptied).warnings, [], 'nothing is left out');
  t.strictSame(contract.warnings, [], "the service's own contract has none");
  for (const [row, cases] of Object.entries(warned)) {
    for (const [edits, message, below = '', fix = /^[A-Z].*[^.]$/] of cases) {
      const pointer = Object.keys(edits)[0]! + below;
      const warnings = loadEdited(gardenDocument, edits).warnings.filter((one) => one.pointer === pointer);
      t.match(warnings, [{ message, fix }], row);
    }
  }
});

t.test('openapi: 3.1.0 is a remedy for a body of DELETE that is not read', (t) => {
  const edits = { '/paths/~1beds~1{bed}/delete/requestBody': putOperation['requestBody'] };
  const { operations } = loadEdited(gardenDocument, { ...edits, ...version31 });
  t.ok(operations.find(({ operationId }) => operationId === 'removeBed')?.body);
  t.end();
});

/** The faults of a contract's text. */
function faultsIn(text: string | Buffer): ContractError {
  try {
    loadContract(Buffer.from(text));
  } catch (error) {
    return error as ContractError;
  }
  throw new Error('no fault');
}

t.test('all faults are reported at once, each with its line and column, and without a stack', async (t) => {
  const yaml = gardenBytes
    .toString()
    .replace('operationId: listBeds', 'operationID: listBeds')
    .replace('type: string\n      enum: [clay', 'typo: string\n      enum: [clay')
    .replace('maxItems: 4\n', 'minItems: four\n');
  const lineOf = (piece: string) => yaml.slice(0, yaml.indexOf(piece)).split('\n').length;
  const fault = faultsIn(yaml);
  t.strictSame(
    fault.faults.map(({ line, column, message }) => [line, column, message]),
    [
      [lineOf('operationID'), 7, 'operationID is not supported here'],
      [lineOf('typo: string'), 7, 'typo is not supported here'],
      [lineOf('minItems: four'), 11, 'must be a number'],
    ],
  );
  t.equal(fault.message.split('\n').length, 4);
  t.match(
    fault.message,
    /^\d+:7 \/components\/schemas\/Soil\/typo: typo is not supported here\. Write type\.$/m,
  );
});

t.test('what is no contract at all is one clear fault, and so is YAML that no contract needs', (t) => {
  const needsVersion =
    'Give the OpenAPI document of the API, with openapi: 3.0.3 or openapi: 3.1.0, in three numbers';
  const noAliases = 'Refer to components with $ref instead of aliases';
  const lists = Array.from({ length: 9 }, (_, i) => `x-${i}: &a${i + 1} [${Array(9).fill(`*a${i}`).join()}]`);
  const head = 'openapi: 3.0.3\n';
  for (const [text, line, column, message, fix] of [
    [`${head}info: {a: 1\npaths: {}`, 3, 1, /must be sufficiently indented and end with a }$/, /^Correct /],
    [`${head}x: 1\nx: 2`, 3, 1, /^Map keys must be unique/],
    [`${head}x: [.inf]`, 2, 5, /JSON has no such number/],
    [`${head}---\n${head}`, 2, 1, /^another document begins here$/],
    [`${head}paths: {}\ninfo:`, 3, 1, /^is empty$/, /^Write below it what it contains/],
    [`${head}x: &loop { again: [*loop] }`, 2, 20, /^\*loop is inside of what it stands for$/],
    [`${head}x: *b`, 2, 4, /^\*b stands for nothing$/],
    [`${head}x: { <<: 5 }`, 1, 1, /^Merge sources must be maps or map aliases$/, noAliases],
    [`${head}x: &a0 [b]\n${lists.join('\n')}`, 1, 1, /^Excessive alias count/, noAliases],
    [`${head}x: { ? [b] : c }`, 2, 8, /^With stringKeys, all keys must be strings$/],
    ['['.repeat(20_000), 1, 1, /^the text is nested too deeply$/],
    [' '.repeat(50_000_001), 1, 1, /^the file has more than 50 MB$/],
    [Buffer.from(`\ufeff${head}`, 'utf16le'), 1, 1, /^the text is not UTF-8$/, 'Save the file as UTF-8'],
    [
      '<!DOCTYPE html>\n<html><body>404: not found</body></html>',
      1,
      1,
      /^this is HTML or XML$/,
      /get the raw file$/,
    ],
    ["swagger: '2.0'", 1, 1, /^this is not an OpenAPI document/, /^Convert it to OpenAPI 3\.0/],
    ['[]', 1, 1, /^this is not an OpenAPI document: it has no openapi$/, needsVersion],
    ['openapi: 3.0', 1, 1, /^the version 3 is not supported$/, needsVersion],
  ] as const) {
    const [fault] = faultsIn(text).faults;
    t.match(fault, { line, column: text.length > 1e4 ? Number : column, message, fix: fix ?? String });
  }
  const repeated = `openapi: 3.1.0\ninfo: { title: A, version: 1 }\nx-a: &a [1]\nx-b: [${Array(500).fill('*a').join()}]`;
  t.ok(loadContract(Buffer.from(repeated)), 'aliases may repeat what is short');
  const tabs = JSON.stringify(gardenDocument, undefined, '\t');
  t.equal(loadContract(Buffer.from(tabs)).operations.length, 11, 'JSON with tabs');
  t.end();
});

t.test('a reference that leads nowhere is one fault', async (t) => {
  const faults = await faultsOf({
    [`${putBed}/parameters`]: [{ $ref: 'other.yaml' }],
    [`${putBed}/requestBody`]: { $ref: '#/components/requestBodies/None' },
    [`${responses}/400`]: { $ref: null },
  });
  t.match(faults.map(({ pointer }) => pointer).sort(), [
    `${putBed}/parameters/0/$ref`,
    `${putBed}/requestBody/$ref`,
    `${responses}/400/$ref`,
  ]);
});

t.test(
  'a contract in several files is refused, and read with exact integers once it is bundled',
  async (t) => {
    const folder = await temporaryFolder(t);
    const main = join(folder, 'openapi.yaml');
    const get =
      '{ operationId: getBed, responses: { 204: { description: It exists. }, default: { $ref: errors.yaml } } }';
    const files = {
      'openapi.yaml': `openapi: 3.1.0
info: { title: A, version: 1.0.0 }
security: []
paths:
  /beds/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { $ref: 'ids.yaml#/Id' } }]
    get: ${get}
`,
      'ids.yaml':
        'Id: { type: integer, format: int64, minimum: -9223372036854775807, maximum: 9223372036854775806 }',
      'errors.yaml': 'description: Failed.',
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    t.throws(() => loadContract(readFileSync(main)), /outside of this document/);
    const program = fileURLToPath(new URL('../../test/examples/bundle.js', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [program, main]);
    const { operations, warnings } = loadContract(Buffer.from(stdout));
    t.match({ operations, warnings }, { operations: [{ operationId: 'getBed' }], warnings: [] });
    for (const limit of ['minimum: -9223372036854775807', 'maximum: 9223372036854775806'])
      t.match(stdout, limit);
  },
);

/** What the page leaves out, since neither OpenAPI nor any server allows it. */
const mistakes = new Set([
  'a field that OpenAPI does not have, or a misspelled `x-required-scope`',
  'a response without `description`, `tags` that is not a list of strings, `oauth2` without `flows`',
  'an operationId, or a method and path, that occurs twice',
  'a status that HTTP does not have',
  'a path parameter that is not in the path, or a parameter that is declared twice',
  'a media type that HTTP does not have',
  'keywords that JSON Schema does not have',
  'an empty `enum`',
  'a `const` that is not in `enum`',
  'a `default` of the right type that its schema does not allow',
  'an undefined security scheme, or one that is not `http`, `apiKey`, `oauth2` or `openIdConnect`',
  'a scope on an operation that needs no caller',
  'an operation without a handler, a scheme without a verifier, a scope that no caller can have',
]);

t.test('docs/contract.md lists what these tests cover', async (t) => {
  const page = await readFile(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  const [, , stops = ''] = page.split(/^## .*$/m);
  // The items up to a colon, which a remedy follows.
  const items = [...stops.matchAll(/^- (.*(?:\n {2}.*)*)/gm)].map(([, item = '']) =>
    item.replaceAll(/\s+/g, ' ').replace(/: .*/, ''),
  );
  t.strictSame(
    items.sort(),
    [
      'text that is not YAML or JSON, has a key twice, or takes more than 50 MB',
      ...Object.keys(refused).filter((row) => !mistakes.has(row)),
    ].sort(),
  );
  t.strictSame(
    [...mistakes].filter((row) => !(row in refused)),
    [],
  );
});
