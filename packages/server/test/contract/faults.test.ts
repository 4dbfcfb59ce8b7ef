// What a contract may not contain prevents startup, and what is served in another way than one may expect is a warning:
// each with its place and a remedy, and all of them in docs/contract.md.
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
const responses = `${putBed}/responses`;
const bedSchema = '/components/schemas/Bed';
const extra = `${bedSchema}/properties/extra`;
const listBeds = '/paths/~1beds/get';
const q = `${listBeds}/parameters/7`;
const text = { type: 'string' };
const file = { type: 'string', format: 'binary' };
const failed = '/components/responses/Failed';
const error = { $ref: '#/components/schemas/Error' };
const failure = { $ref: `#${failed}` };

const closed = { type: 'object', additionalProperties: false };
const q1 = { name: 'q', in: 'query', schema: text };
const id = { name: 'id', in: 'path', required: true, schema: text };

/** Changes replaceBed; undefined removes. */
const replaceBed = (changes: object): Edits => ({ [putBed]: { ...putOperation, ...changes } });
/** Adds a property to its body. */
const field = (schema: unknown): Edits => ({ [extra]: schema });
/** Changes the scheme of most operations. */
const scheme = (value: object): Edits => ({ '/components/securitySchemes/apiKey': value });
const formType = 'application/x-www-form-urlencoded';
/** Makes a form of the body. */
const form = (schema: object, encoding?: object, type = formType): Edits => ({
  [`${putBed}/requestBody/content/${type.replace('/', '~1')}`]: { schema, ...(encoding && { encoding }) },
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

const integer = 'it must be an integer from -9007199254740991 to 9007199254740991';
const soil = { $ref: '#/components/schemas/Soil' };

/** Cases of each item of docs/contract.md that prevents startup; they may name what to write instead. */
const refused: Record<string, Case[]> = {
  'a version other than 3.0 and 3.1': [[{ '/openapi': '3.2.0' }, 'the version 3.2.0 is not supported']],
  'a field that OpenAPI does not have, or a misspelled `x-required-scope`': [
    [replaceBed({ response: {} }), 'response is not supported here', '/response'],
    [replaceBed({ 'x-required-scop': 'a' }), 'x-required-scop is not supported here', '/x-required-scop'],
    [{ '/components/schema': {} }, 'schema is not supported here'],
    [parameter({ schema: text, require: true }), 'require is not supported here', '/require'],
    [{ '/security': 'apiKey' }, 'must be an array'],
    [{ [`${listBeds}/parameters`]: {} }, 'must be an array'],
    [replaceBed({ responses: [] }), 'must be an object', '/responses'],
    ...['yes', 'true'].map((required): Case => [
      { [`${putBed}/requestBody/required`]: required },
      'must be true or false',
      '',
      'Write true or false, without quotes',
    ]),
  ],
  'a `$ref` that is not a string, or that leads to another file or to nothing': [
    ...Object.entries({
      [`${putBed}/parameters/0`]: null,
      [`${putBed}/requestBody`]: {},
      [`${responses}/200`]: [],
      [`${bedSchema}/properties/title`]: true,
      '/paths/~1beds': 5,
    }).map(([place, $ref]): Case => [
      { [place]: { $ref } },
      'the reference is not a text',
      '/$ref',
      'Write it in quotes: in YAML, # begins a comment',
    ]),
    [field({ items: { $ref: 'a.yaml' } }), 'a.yaml is outside of this document', '/items/$ref'],
    [field({ $ref: 'Bed' }), 'Bed refers to nothing', '/$ref'],
    [field({ $ref: 'other.yaml#/Bed' }), 'other.yaml#/Bed is outside of this document', '/$ref'],
    [field({ $ref: `#${extra}` }), `#${extra} leads back to itself`, '/$ref'],
    [{ [listBeds]: { $ref: 'beds.yaml' } }, 'beds.yaml is outside of this document', '/$ref'],
  ],
  'a path that does not begin with `/`, or has adjacent parameters, a query or special characters': [
    ...['~1beds~1{bed}{id}', '~1beds~1a b', '~1beds~1%2F', '~1beds~1*', '~1~1beds'].map((path): Case => [
      { [`/paths/${path}`]: { get: about } },
      'a path of this form is not supported',
      '',
      "Let clients use another, with separate parameters, and only letters, digits and -._~:@!$&'()+=,;",
    ]),
    [{ '/paths/~1beds#all': { get: about } }, 'a path of this form is not supported'],
  ],
  'a server whose path has special characters': [
    ...['/v1|beta', '/{version}'].map((url): Case => [
      { '/servers': [{ url, variables: { version: { default: 'a|b' } } }] },
      `${url.replace('{version}', 'a|b')} has no usable path`,
      '/0/url',
    ]),
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
    [replaceBed({ tags: 'beds' }), 'must be an array', '/tags'],
    [replaceBed({ tags: [1] }), 'must be a text', '/tags/0', 'Write a text, in quotes'],
    [scheme({ type: 'oauth2' }), 'flows is missing', '', 'Write flows'],
    [scheme({ type: 'openIdConnect' }), 'openIdConnectUrl is missing'],
  ],
  'an operationId, or a method and path, that occurs twice': [
    [
      { '/paths/~1beds~1{id}': { put: { ...putOperation, operationId: 'b', parameters: [id] } } },
      'another path with this method matches the same URLs',
      '/put',
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
  'an object parameter outside of a query, or an object inside one': [
    [
      parameter({ in: 'header', schema: { type: 'object' } }),
      'object is not supported here',
      '/schema',
      'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change',
    ],
    [
      parameter({ schema: { type: 'object', properties: { a: { type: 'object' } } }, style: 'deepObject' }),
      'the property a: object is not supported here',
      '/schema',
      'Write a parameter or field for each name that clients send instead, such as filter[total][min]: requests stay, but types of generated clients change',
    ],
    [
      parameter({ schema: text, style: 'constructor' }),
      'the style constructor is not supported here',
      '/style',
    ],
    [parameter({}), 'schema is missing'],
  ],
  'a parameter that may or may not be an object': [
    [
      parameter({ schema: { oneOf: [text, { type: 'object' }] } }),
      'string or object is not supported here',
      '/schema',
      'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change',
    ],
  ],
  'a parameter whose items are arrays or objects': ['array', 'object'].map((type): Case => [
    parameter({ schema: { type: 'array', items: { type, items: {} } } }),
    'the items are arrays or objects, which OpenAPI does not say how to write',
    '/schema',
    'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change',
  ]),
  'the styles `label`, `matrix`, `spaceDelimited` and `pipeDelimited`': [
    ...['label', 'matrix'].map((style): Case => [
      replaceBed({ parameters: [{ name: 'bed', in: 'path', required: true, schema: text, style }] }),
      `the style ${style} is not supported here`,
      '/parameters/0/style',
      'Write simple, or for the same URLs type: string, and read the text in the handler',
    ]),
    ...['spaceDelimited', 'pipeDelimited'].map((style): Case => [
      parameter({ schema: { type: 'array', items: text }, style }),
      `the style ${style} is not supported here`,
      '/style',
      'Write form, or for the same URLs type: string, and read the text in the handler',
    ]),
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
    [
      parameter({ in: 'cookie', schema: { type: 'array', items: text } }),
      'an array in a cookie is not supported',
      '/schema',
      'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change',
    ],
  ],
  'a body on GET, in 3.1': [
    [
      { [`${listBeds}/requestBody`]: putOperation['requestBody'], ...version31 },
      'a body is not supported for GET',
    ],
  ],
  'an object in another media type than JSON and forms': [
    ...Object.entries({
      'application/xml':
        'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change',
      'multipart/mixed': 'Write multipart/form-data with type: object, and a property for each field',
      'multipart/*': 'Write multipart/form-data with type: object, and a property for each field',
    }).map(([type, fix]): Case => {
      const edits = { [`${putBed}/requestBody/content`]: { [type]: { schema: { type: 'object' } } } };
      return [edits, `${type} is not supported`, '', fix];
    }),
    [{ [`${putBed}/requestBody/content`]: {} }, 'has no media type'],
  ],
  'a form that is not an object, has a file inside of a field, or has files but is not `multipart/form-data`':
    [
      [
        { [`${putBed}/requestBody/content`]: { [formType]: { schema: { type: 'array' } } } },
        `${formType} is not supported`,
        '',
        'Write multipart/form-data with type: object, and a property for each field',
      ],
      [
        form({ type: 'object', properties: { a: file } }),
        'the field a is a file',
        '/schema',
        'Write multipart/form-data with a field for each file, or format: byte',
      ],
      ...[file, { type: 'array', items: file }].map((inside): Case => {
        const schema = { type: 'array', items: { type: 'object', properties: { b: inside } } };
        return [
          form({ type: 'object', properties: { a: schema } }, undefined, 'multipart/form-data'),
          'the field a has a file inside',
          '/schema',
          'Write multipart/form-data with a field for each file, or format: byte',
        ];
      }),
      [
        form(
          { type: 'object', properties: { a: { type: 'object', properties: { b: { type: 'object' } } } } },
          { a: { style: 'deepObject' } },
        ),
        'the property b: object is not supported here',
        '/encoding/a',
      ],
    ],
  'a media type that HTTP does not have': [
    ...['json', 'application/json, version=1'].map((type): Case => [
      { [`${putBed}/requestBody/content`]: { [type]: {} } },
      `${type} is not a media type`,
      `/${type.replace('/', '~1')}`,
      'Write a media type such as application/json, and schema in it',
    ]),
  ],
  'a response header with `content`': [
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
    [field({ oneOf: [text], discriminator: { mapping: {} } }), 'propertyName is missing', '/discriminator'],
  ],
  '`$id` and `$dynamicRef`': [
    [field({ $dynamicRef: '#a' }), '$dynamicRef is not supported here', '/$dynamicRef'],
    [field({ $id: 'a' }), '$id is not supported here', '/$id'],
  ],
  'keywords that JSON Schema does not have': [
    [field({ type: 'string', patern: 'x' }), 'patern is not supported here', '/patern'],
    [field({ type: 'string', minLength: -1 }), 'must be a count', '/minLength'],
    [{ '/info': 'x' }, 'must be an object'],
    [{ '/info/title': {} }, 'must be a text'],
    [replaceBed({ security: [{ gardenAuth: [{}] }] }), 'must be a text', '/security/0/gardenAuth/0'],
    [field({ type: 'number', multipleOf: 0 }), 'must be above 0', '/multipleOf'],
    [field({ type: 'object', additionalProperties: null }), 'must be a schema', '/additionalProperties'],
  ],
  'an empty `enum`': [
    [field({ type: 'string', enum: [] }), 'allows no value', '/enum'],
    [field({ type: 'string', enum: [], default: 'a' }), 'allows no value', '/enum'],
  ],
  'a `default` of the right type that its schema does not allow': [
    [
      field({ type: 'integer', maximum: 3, default: 5, 'x-note': 'kept' }),
      `the default does not match its schema: ${integer.replace(/to .*/, 'to 3')}`,
      '/default',
      'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
    ],
    [
      field({ type: 'object', required: ['n'], properties: { n: { type: 'integer' } }, default: { m: 1 } }),
      'the default does not match its schema: n is missing',
      '/default',
    ],
    [
      { ...field({ allOf: [soil], maxLength: 3 }), '/components/schemas/Soil/default': 'clay' },
      'the default does not match its schema: it must have at most 3 characters',
    ],
    [
      parameter({ schema: { type: 'array', items: { type: 'string', format: 'date' }, default: ['now'] } }),
      'the default does not match its schema: 0 must match format "date"',
      '/schema/default',
    ],
  ],
  'a schema that contains itself outside of properties and items': [
    [
      { '/components/schemas/Soil': { allOf: [text, { $ref: '#/components/schemas/Soil' }] } },
      'the schema contains itself',
    ],
    ...[{ anyOf: [soil] }, { oneOf: [text, soil] }, { not: soil }, { dependentSchemas: { a: soil } }].map(
      (schema): Case => [{ '/components/schemas/Soil': schema, ...version31 }, 'the schema contains itself'],
    ),
  ],
  'parts of `allOf` that contradict each other, or give a number two formats': [
    [field({ allOf: [text, { type: 'object' }] }), 'a value cannot be string and object at the same time'],
    [
      field({ allOf: [{ type: 'integer', format: 'int64' }, { type: 'integer' }] }),
      'a value cannot have the format int64 and be another number at the same time',
    ],
    [
      field({
        allOf: [text, { type: 'integer' }].map((color) => ({
          type: 'object',
          properties: { leaf: { type: 'object', properties: { color } } },
        })),
      }),
      'leaf.color cannot be string and integer at the same time',
    ],
  ],
  'a `pattern` in a request, or of names in a response, that is not matched in linear time': [
    [
      parameter({ schema: { type: 'string', pattern: '^(.)\\1$' } }),
      '^(.)\\1$ is not supported: it repeats what a group has matched, \\1',
      '/schema/pattern',
    ],
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
    [
      field({ type: 'integer', format: 'int64', maximum: 2 ** 53 + 2 }),
      'is an integer that programs round',
      '/maximum',
    ],
    [field({ maximum: 2 ** 60 }), 'is an integer that programs round', '/maximum'],
    [
      field({ type: 'integer', format: 'int64', enum: [2 ** 60] }),
      'is an integer that programs round',
      '/enum/0',
    ],
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
    ],
    [scheme({ type: 'mutualTLS' }), 'the security scheme "mutualTLS" is not supported'],
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

/** Cases of each warning of docs/contract.md. */
const warned: Record<string, Case[]> = {
  'no `security`': [[noSecurity, 'no security is declared: the operation is public']],
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
    ...[{ type: 'string' }, { allOf: [soil] }, { type: 'array', items: text }].map((schema): Case => [
      field({ ...schema, default: null }),
      unfilled,
      '/default',
    ]),
    ...[
      { type: 'boolean', default: 'false' },
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
      field({
        type: 'object',
        properties: { id: text },
        oneOf: ['a', 'b'].map((name) => ({ ...closed, properties: { [name]: text } })),
      }),
      'no object can have id: another part has no additional properties',
    ],
  ],
  'a nullable type whose `enum` lacks null': [
    ...[
      field({ type: 'string', nullable: true, enum: ['a'] }),
      { ...field({ type: ['string', 'null'], enum: ['a'] }), ...version31 },
    ].map((edits): Case => [edits, 'null is not in enum: it is refused', '/enum', 'Add null to enum']),
    [
      { ...field({ type: 'string', nullable: true, enum: ['a'] }), ...version31 },
      'OpenAPI 3.1 has no nullable: it is read as in 3.0',
      '/nullable',
      'Write type: ["string","null"]',
    ],
  ],
  'fields next to the `$ref` of a parameter, body, response or header': [
    [
      {
        [`${listBeds}/parameters/7`]: { $ref: '#/x-q', required: true },
        '/x-q': { ...q1, 'x-note': 'kept' },
      },
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
    ],
  ],
  "a status of the server (400, 401, 403, 429, 500, 503) without a response, or errors of another form than the server's":
    [
      [
        { [responses]: { 200: { description: 'x' }, '4XX': failure } },
        '500, 503 can be returned without being declared',
      ],
      [
        { [responses]: { 200: { description: 'x' }, 401: failure, 403: failure, 422: failure } },
        '429, 500, 503 can be returned without being declared',
      ],
      ...['401', '403'].map((status): Case => {
        const others = { ...(putOperation['responses'] as object), [status]: undefined };
        return [{ [responses]: others }, `${status} can be returned without being declared`];
      }),
      ...[
        { 'application/json': { schema: { required: ['error', 'message', 'hint'] } } },
        { 'application/json': { schema: { oneOf: [{ type: 'object' }, text] } } },
        { 'application/problem+json': {} },
      ].map((content): Case => [{ [`${failed}/content`]: content }, otherBody]),
    ],
  'media types that cannot be served, next to others, in a request': [
    [
      {
        [`${putBed}/requestBody/content`]: {
          'application/json': { schema: error },
          'application/xml': { schema: error },
        },
      },
      'application/xml is refused',
    ],
  ],
  '`style` and `explode` of arrays and objects in `multipart/form-data`, in 3.0': [
    [
      { type: 'array', items: text },
      { style: 'form', explode: false },
    ] as const,
    [{ type: 'array', items: text }, { style: 'pipeDelimited' }] as const,
  ].map(([schema, encoding]): Case => [
    form({ type: 'object', properties: { a: schema } }, { a: encoding }, 'multipart/form-data'),
    'OpenAPI 3.0 ignores style and explode in multipart/form-data',
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
    [
      field({ type: 'number', format: 'decimal' }),
      'the format decimal is not checked: it is any number',
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
    [
      field({ $ref: '#/components/schemas/Soil', nullable: true }),
      'OpenAPI 3.0 ignores what is next to $ref (nullable)',
    ],
    [
      field({ allOf: [{ $ref: '#/components/schemas/Soil' }], nullable: true }),
      'nullable has no effect without a type',
      '/nullable',
    ],
  ],
  '`nullable` in 3.1': [
    [
      { ...field({ type: 'string', nullable: true }), ...version31 },
      'OpenAPI 3.1 has no nullable: it is read as in 3.0',
      '/nullable',
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
      t.match(first, { line: 1, column: Number, fix: /^[A-Z].*[^.]$/ });
      if (fix !== undefined) t.equal(first?.fix, fix);
    }
  }
});

t.test('what is served in another way than one may expect is a warning with a remedy', async (t) => {
  t.strictSame(loadEdited(gardenDocument).warnings, []);
  const emptied = { '/paths/~1beds~1{bed}/delete/responses/204/content': {} };
  t.strictSame(loadEdited(gardenDocument, emptied).warnings, [], 'nothing is left out');
  t.strictSame(contract.warnings, [], "the service's own contract has none");
  for (const [row, cases] of Object.entries(warned)) {
    for (const [edits, message, below = ''] of cases) {
      const pointer = Object.keys(edits)[0]! + below;
      const warnings = loadEdited(gardenDocument, edits).warnings.filter((one) => one.pointer === pointer);
      t.strictSame(
        warnings.map((warning) => warning.message),
        [message],
        row,
      );
      t.match(warnings[0]?.fix, /^[A-Z].*[^.]$/);
    }
  }
});

t.test('an operation whose operationId is empty gets a derived one', (t) => {
  const { operations } = loadEdited(gardenDocument, replaceBed({ operationId: '' }));
  t.ok(operations.some(({ operationId }) => operationId === 'putBedsByBed'));
  t.end();
});

t.test('openapi: 3.1.0 is a remedy for a body of DELETE that is not read', (t) => {
  const edits = { '/paths/~1beds~1{bed}/delete/requestBody': putOperation['requestBody'] };
  const { warnings } = loadEdited(gardenDocument, edits);
  t.match(warnings, [{ fix: /openapi: 3\.1\.0 allows a body of DELETE$/ }]);
  const { operations } = loadEdited(gardenDocument, { ...edits, ...version31 });
  t.ok(operations.find(({ operationId }) => operationId === 'removeBed')?.body);
  t.end();
});

t.test('an unquoted reference is one fault, where it is', async (t) => {
  for (const [piece, line] of [
    ["              $ref: '#/components/schemas/Task'", 13],
    ["          $ref: '#/components/responses/Error'", 17],
    ["            $ref: '#/components/schemas/Error'", 43],
  ] as const) {
    const text = tasks.replace(piece, piece.replaceAll("'", ''));
    t.strictSame(
      messagesOf(text).map((message) => message.replace(/:\d+/, '')),
      [`${line} the reference is not a text. Write it in quotes: in YAML, # begins a comment.`],
    );
  }
});

t.test('all faults are reported at once, each with its line and column, and without a stack', async (t) => {
  const yaml = gardenBytes
    .toString()
    .replace('operationId: listBeds', 'operationID: listBeds')
    .replace('type: string\n      enum: [clay', 'typo: string\n      enum: [clay')
    .replace('maxItems: 4\n', 'minItems: four\n');
  const lineOf = (piece: string) => yaml.slice(0, yaml.indexOf(piece)).split('\n').length;
  const faults = (text: string) => {
    try {
      loadContract(Buffer.from(text));
    } catch (error) {
      return error as ContractError;
    }
    throw new Error('no fault');
  };
  const fault = faults(yaml);
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

  for (const [text, line, column, message] of [
    ['openapi: 3.0.3\ninfo: {a: 1\npaths: {}', 3, 1, /must be sufficiently indented and end with a }$/],
    ['openapi: 3.0.3\nopenapi: 3.0.3', 2, 1, /Map keys must be unique/],
    ['openapi: 3.0.3\ninfo: [.inf]', 2, 8, /JSON has no such number/],
    ['openapi: 3.0.3\ninfo: [.nan]', 2, 8, /JSON has no such number/],
    ['openapi: 3.0.3\ninfo: [-1e999]', 2, 8, /JSON has no such number/],
    ['', 1, 1, /this is not an OpenAPI document/],
    ['[]', 1, 1, /this is not an OpenAPI document/],
    ['openapi: 3.0.3\n---\nopenapi: 3.0.3', 2, 1, /^another document begins here$/],
  ] as const) {
    t.match(faults(text).faults, [{ line, column, message }], text);
  }
  const tabs = JSON.stringify(gardenDocument, undefined, '\t');
  t.equal(
    loadContract(Buffer.from(tabs)).operations.length,
    loadEdited(gardenDocument).operations.length,
    'JSON with tabs',
  );
});

const tasks = `openapi: 3.0.3
info: { title: Tasks, version: 1.0.0 }
security: []
paths:
  /tasks:
    post:
      operationId: createTask
      summary: Creates a task
      requestBody:
        content:
          application/json:
            schema:
              $ref: '#/components/schemas/Task'
      responses:
        201: { description: Created }
        default:
          $ref: '#/components/responses/Error'
  /tasks/{id}:
    get:
      operationId: getTask
      parameters:
        - name: id
          in: path
          required: true
          schema:
            type: string
      responses:
        200:
          description: The task
          content:
            application/json:
              schema:
                $ref: '#/components/schemas/Task'
        default:
          $ref: '#/components/responses/Error'
components:
  responses:
    Error:
      description: An error
      content:
        application/json:
          schema:
            $ref: '#/components/schemas/Error'
  schemas:
    Task:
      type: object
      required: [title]
      properties:
        title:
          type: string
        done:
          type: boolean
    Error:
      type: object
      required: [error, message]
      properties:
        error: { type: integer }
        message: { type: string }
`;

/**
 * What authors write by mistake: a piece of the contract above and what they write instead, or all; and the message, which
 * no case above repeats.
 */
const slips: [piece: string | undefined, written: string, message: string, version?: string][] = [
  [
    undefined,
    '<!DOCTYPE html>\n<html><body>404: not found</body></html>',
    '1:1 this is HTML or XML. Write YAML or JSON; if it is a download, get the raw file.',
  ],
  [
    undefined,
    "swagger: '2.0'\npaths: {}",
    '1:1 this is not an OpenAPI document: it has no openapi. Convert it to OpenAPI 3.0, as swagger2openapi --yaml --outfile openapi.yaml FILE does.',
  ],
  [
    undefined,
    '{ "asyncapi": "2.6.0" }',
    '1:1 this is not an OpenAPI document: it has no openapi. Give the OpenAPI document of the API, with openapi: 3.0.3 or openapi: 3.1.0, in three numbers.',
  ],
  [
    undefined,
    '{\n  "openapi": "3.0.3"\n  "paths": {}\n}',
    '3:3 Missing , between flow map items. Correct the indentation or the syntax here or above, or write the text in quotes.',
  ],
  [
    'paths:\n',
    'x-loop: &loop { again: [*loop] }\npaths:\n',
    '4:25 *loop is inside of what it stands for. Refer to a schema with $ref.',
  ],
  [
    '    Task:\n      type: object',
    "    Task: { $ref: '#/components/schemas/Job' }\n    Job: { $ref: '#/components/schemas/Task' }\n    Rest:\n      type: object",
    '46:12 #/components/schemas/Task leads back to itself. Refer to what it is meant to be.',
  ],
  [
    'openapi: 3.0.3',
    'openapi: 3.0',
    '1:1 the version 3 is not supported. Give the OpenAPI document of the API, with openapi: 3.0.3 or openapi: 3.1.0, in three numbers.',
  ],
  [
    '      summary:',
    '	summary:',
    '8:1 Tabs are not allowed as indentation. Correct the indentation or the syntax here or above, or write the text in quotes.',
  ],
  [
    'Creates a task',
    'Creates a task: any task',
    '8:16 Nested mappings are not allowed in compact mappings. Correct the indentation or the syntax here or above, or write the text in quotes.',
  ],
  [
    "        200:\n          description: The task\n          content:\n            application/json:\n              schema:\n                $ref: '#/components/schemas/Task'\n",
    "        200:\n          $ref: '#/components/schemas/Task'\n",
    '29:11 #/components/schemas/Task is not in components/responses. Write it in a field schema.',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    "schema:\n                $ref: '#/components/responses/Error'",
    '33:17 #/components/responses/Error is not in components/schemas. Write #/components/schemas/Name.',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    "$ref: '#/components/schemas/Task'",
    '32:15 $ref is not supported here. Leave it out, or write it in schema.',
  ],
  [
    "content:\n            application/json:\n              schema:\n                $ref: '#/components/schemas/Task'",
    "content:\n            $ref: '#/components/schemas/Task'",
    '31:13 $ref is not a media type. Write a media type such as application/json, and schema in it.',
  ],
  [
    "content:\n            application/json:\n              schema:\n                $ref: '#/components/schemas/Task'",
    "schema:\n            $ref: '#/components/schemas/Task'",
    '30:11 schema is not supported here. Leave it out, or write it in a media type in content.',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    "schema:\n                $ref: '#/definitions/Task'",
    '33:17 #/definitions/Task refers to nothing. Write #/components/schemas/Task.',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    'schema:\n                $ref: Task',
    '33:17 Task refers to nothing. Write #/components/schemas/Task.',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    "schema:\n                $ref: '#/components/schemas/Job'",
    '33:17 #/components/schemas/Job refers to nothing. Add Job to components/schemas.',
  ],
  [
    '        - name: id\n          in: path\n          required: true\n          schema:\n            type: string\n',
    '',
    '21:7 is empty. Write below it what it contains, with more indentation.',
  ],
  [
    'name: id',
    'name: taskId',
    '22:11 the path parameter taskId is not in the path. Write {taskId} in the path, where another name may stand for it, or leave it out.',
  ],
  [
    '/tasks/{id}:',
    '/tasks/:id:',
    '22:11 the path parameter id is not in the path. Write {id} in the path, where another name may stand for it, or leave it out.',
  ],
  ['  /tasks:\n', '  tasks:\n', '5:3 a path of this form is not supported. Write /tasks.'],
  [
    '  /tasks:\n',
    '  /tasks?done={done}:\n',
    '5:3 a path of this form is not supported. End it before the ? or #, and write a parameter with in: query for each name after it, if need be in the operation of the path that is there already: URLs stay.',
  ],
  [
    '          schema:\n            type: string\n      resp',
    '          schema: {}\n          type: string\n      resp',
    '26:11 type is not supported here. Leave it out, or write it in schema.',
  ],
  [
    '        - name: id\n          in: path\n          required: true\n          schema:\n            type: string\n',
    '        name: id\n        in: path\n',
    '21:7 must be an array. Write an array here: a dash before each item, or [ ] around all.',
  ],
  [
    '        - name: id\n          in: path\n          required: true\n          schema:\n            type: string\n',
    '        - name: id\n          in: path\n          required: true\n          schema:\n            type: string\n        - { name: task, in: body, schema: {} }\n',
    '27:25 in is missing or not valid. Write in: path, query, header or cookie, or requestBody in the operation.',
  ],
  [
    'operationId: getTask',
    'operationId: createTask',
    '20:7 the operationId createTask is also that of POST /tasks. Write another one in one of them: methods of generated clients are named after it.',
  ],
  [
    'security: []',
    'security: [bearer: []]',
    '3:12 bearer is not a security scheme of the contract. Add it to components/securitySchemes, as in bearer: { type: http, scheme: bearer }.',
  ],
  [
    'components:\n',
    'components:\n  securitySchemes:\n    key: { type: bearer }\n',
    '38:5 the security scheme "bearer" is not supported. Write type: http with scheme: bearer or basic, or apiKey, oauth2 or openIdConnect.',
  ],
  [
    '        201: { description: Created }',
    '        201: Created',
    '15:9 must be an object. Write an object here, as in { description: … }.',
  ],
  [
    'components:\n',
    'definitions: {}\ncomponents:\n',
    '36:1 definitions is not supported here. Leave it out, or write it in components.',
  ],
  [
    'summary: Creates a task',
    'consumes: [application/json]',
    '8:7 consumes is not supported here. Leave it out, or begin its name with x-.',
  ],
  [
    'title:\n          type: string',
    'title: string',
    '49:9 must be a schema. Write an object with a type, such as { type: string }.',
  ],
  [
    '        201:',
    '        2x:',
    '15:9 2x is not a status. Write a status from 200 to 599, a range such as 4XX, or default.',
  ],
  [
    'title:\n          type: string',
    'title:\n          type: string\n          required: yes, always',
    '51:11 must be an array. List the names of the required properties in the object that has them, next to properties.',
  ],
  [
    'type: boolean',
    'type: bool',
    '52:11 "bool" is not a type. Write one of "null", "boolean", "integer", "number", "string", "array", "object".',
  ],
  [
    'type: boolean',
    'type: [boolean, null]',
    '52:11 null is not a type. Write one of "null", "boolean", "integer", "number", "string", "array", "object".',
    '3.1.0',
  ],
  [
    "schema:\n                $ref: '#/components/schemas/Task'",
    "schema:\n                $ref: '#/components/schemas/Tasks'",
    '33:17 #/components/schemas/Tasks refers to nothing. Write #/components/schemas/Task.',
  ],
  [
    'application/json:\n            schema:\n              $ref: ',
    'application/xml:\n            schema:\n              $ref: ',
    '10:9 application/xml is not supported. Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change.',
  ],
];

function messagesOf(contract: string | Buffer): string[] {
  try {
    loadContract(Buffer.from(contract));
    return [];
  } catch (error) {
    return (error as ContractError).faults.map(
      ({ line, column, message, fix }) => `${line}:${column} ${message}. ${fix}.`,
    );
  }
}

t.test('a slip is one fault where the author must write, with a remedy that fits', async (t) => {
  t.strictSame(messagesOf(tasks), []);
  for (const [piece, written, message, version = '3.0.3'] of slips) {
    const text = piece === undefined ? written : tasks.replace(piece, () => written);
    t.strictSame(messagesOf(text.replace('3.0.3', version)), [message], written);
  }
  t.strictSame(messagesOf(Buffer.from(`\ufeff${tasks}`, 'utf16le')), [
    '1:1 the text is not UTF-8. Save the file as UTF-8.',
  ]);
});

t.test('a reference that leads nowhere is one fault', async (t) => {
  const faults = await faultsOf({
    [`${putBed}/parameters`]: [{ $ref: 'other.yaml' }],
    [`${putBed}/requestBody`]: { $ref: '#/components/requestBodies/None' },
    [`${putBed}/responses/400`]: { $ref: 'other.yaml' },
  });
  t.match(faults.map(({ pointer }) => pointer).sort(), [
    `${putBed}/parameters/0/$ref`,
    `${putBed}/requestBody/$ref`,
    `${putBed}/responses/400/$ref`,
  ]);
});

t.test('an operation is named that is public because no security is declared', (t) => {
  const securitySchemes = partOf(gardenDocument, '/components/securitySchemes') as object;
  const { warnings } = loadEdited(gardenDocument, {
    ...noSecurity,
    '/components/securitySchemes': { Token: { type: 'http', scheme: 'digest' }, ...securitySchemes },
  });
  t.match(
    warnings.find(({ pointer }) => pointer === putBed),
    {
      message: 'no security is declared: the operation is public',
      fix: 'Write security: [] if it is to be so, or [{}, { Token: [] }] if callers may also be known',
    },
  );
  t.end();
});

t.test(
  'a contract in several files is refused, and read with exact integers once it is bundled',
  async (t) => {
    const folder = await temporaryFolder(t);
    const main = join(folder, 'openapi.yaml');
    await writeFile(
      main,
      `openapi: 3.1.0
info: { title: A, version: 1.0.0 }
security: []
paths:
  /beds/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { $ref: 'ids.yaml#/Id' } }]
    get: { operationId: getBed, responses: { 204: { description: It exists. }, default: { $ref: 'errors.json' } } }
`,
    );
    await writeFile(
      join(folder, 'ids.yaml'),
      'Id: { type: integer, format: int64, minimum: -9223372036854775807, maximum: 9223372036854775806 }\n',
    );
    const schema = {
      ...{ type: 'object', required: ['error', 'message'] },
      properties: { error: { type: 'integer', format: 'int32' }, message: { type: 'string' } },
    };
    const failed = { description: 'Failed.', content: { 'application/json': { schema } } };
    await writeFile(join(folder, 'errors.json'), JSON.stringify(failed));
    t.throws(() => loadContract(readFileSync(main)), /outside of this document/);
    const program = fileURLToPath(new URL('../../test/examples/bundle.js', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [program, main]);
    const { operations, warnings } = loadContract(Buffer.from(stdout));
    t.match({ operations, warnings }, { operations: [{ operationId: 'getBed' }], warnings: [] });
    for (const limit of ['minimum: -9223372036854775807', 'maximum: 9223372036854775806'])
      t.match(stdout, limit);
  },
);

t.test('docs/contract.md lists what these tests cover', async (t) => {
  const page = await readFile(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  const [, , stops = '', warns = ''] = page.split(/^## .*$/m);
  /** The items of lists up to a colon, which a remedy or an effect follows; without links. */
  const items = (part: string) =>
    [...part.matchAll(/^- (.*(?:\n {2}.*)*)/gm)].map(([, item = '']) =>
      item
        .replaceAll(/\s+/g, ' ')
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .replace(/: .*/, ''),
    );
  t.strictSame(
    items(stops).sort(),
    [
      'text that is not YAML or JSON, has a key twice, or takes more than 50 MB',
      ...Object.keys(refused),
    ].sort(),
  );
  t.strictSame(items(warns).sort(), Object.keys(warned).sort());
});
