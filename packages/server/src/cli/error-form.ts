// Finds a form in which the server's errors match those that a contract declares, and writes it as code.
import type { Contract } from '../contract/contract.js';
import type { Content } from '../contract/responses.js';
import { shapeOf, type Shape } from '../contract/schema/shape.js';
import type { ErrorFacts } from '../base/errors.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { Compiler } from '../http/request/validation/validation.js';
import { keyOf, quoted } from './schema-types.js';
import { messageOf } from '../storage/core/interface.js';

/** The form of a value: an expression, or the forms of the members of an object or of the only item of an array. */
type Form = Expression | { readonly [name: string]: Form } | readonly [Form];

/** The form of all errors. */
export interface ErrorForm {
  readonly mediaType: string;
  readonly body: Form;
}

/** The values that a member of an error can have, each as code and as a function. */
const expressions = {
  'error.statusCode': (error: ErrorFacts) => error.statusCode,
  'String(error.statusCode)': (error: ErrorFacts) => String(error.statusCode),
  'error.code': (error: ErrorFacts) => error.code,
  'String(error.code)': (error: ErrorFacts) => String(error.code),
  'error.title': (error: ErrorFacts) => error.title,
  'error.detail ?? error.title': (error: ErrorFacts) => error.detail ?? error.title,
  'error.message': (error: ErrorFacts) => error.message,
  '"about:blank"': () => 'about:blank',
  'new Date().toISOString()': () => new Date().toISOString(),
  // templates/src/errors.ts has the function; errors are checked without faults.
  'byField(error)': (error: ErrorFacts) => ({ request: [error.message] }),
};
type Expression = keyof typeof expressions;

/** The usual meaning of a member, by its name and type. */
const meanings: readonly [name: RegExp, type: 'integer' | 'string', expression: Expression][] = [
  [/^(http_?)?status(_?code)?$/i, 'integer', 'error.statusCode'],
  [/^(http_?)?status(_?code)?$/i, 'string', 'String(error.statusCode)'],
  [/^(error_?)?code$|^error$/i, 'integer', 'error.code'],
  [/^(error_?)?code$/i, 'string', 'String(error.code)'],
  [/^title$|^error$|^name$/i, 'string', 'error.title'],
  [/^details?$/i, 'string', 'error.detail ?? error.title'],
  [/message|^msg$|description|reason/i, 'string', 'error.message'],
  [/^type$/i, 'string', '"about:blank"'],
  [/^time(stamp)?$/i, 'string', 'new Date().toISOString()'],
];

/** The form that the server's errors have by themselves. */
export const ownForm: ErrorForm = {
  mediaType: 'application/json',
  body: { error: 'error.code', message: 'error.message' },
};

/**
 * Returns a form in which all errors of the server match a contract; if none is found, what does not match.
 * @param contract - As a service has it that renders errors itself.
 */
export function findErrorForm({ operations }: Contract): ErrorForm | string {
  const compiler = new Compiler();
  const declared = operations.flatMap(({ errors }) => errors);
  // Handlers may have errors of statuses that the server itself does not have.
  const errors = Object.fromEntries(
    declared
      .filter(({ key }) => /^\d{3}$/.test(key))
      .map(({ key }) => [`of ${key}`, { code: Number(key) * 100 + 99, message: 'The request failed.' }]),
  );
  const mismatchOf = ({ mediaType, body }: ErrorForm): string | undefined => {
    const render = (error: ErrorFacts) => ({ mediaType, body: valueOf(body, error) as object });
    try {
      createErrorRenderer(compiler, operations, { errors, render });
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  };
  const contents = declared.flatMap((one) => one.contents).filter(({ isJson }) => isJson);
  const distinct = [...new Map(contents.map((content) => [content.schema, content])).values()];
  // Schemas that allow any other members accept the server's own form; but clients expect the members that they name.
  const namesOwn = distinct.every(({ schema }) =>
    Object.keys(ownForm.body).every((name) => Object.hasOwn(shapeOf(schema).properties, name)),
  );
  const forms = distinct.flatMap((content) => formOfContent(content) ?? []);
  const form = (namesOwn ? [ownForm] : [...forms, ownForm]).find((one) => mismatchOf(one) === undefined);
  return form ?? mismatchOf(ownForm)!;
}

/** The body of the function `renderError`. */
export function renderText({ mediaType, body }: ErrorForm): string {
  return `  return {\n    mediaType: ${quoted(mediaType)},\n    body: ${formText(body, 4)},\n  };\n`;
}

function formText(form: Form, indent: number): string {
  const inner = ' '.repeat(indent + 2);
  if (typeof form === 'string') return form;
  if (isList(form)) return `[${formText(form[0], indent)}]`;
  const members = Object.entries(form).map(
    ([name, part]) => `${inner}${keyOf(name)}: ${formText(part, indent + 2)},\n`,
  );
  return `{\n${members.join('')}${' '.repeat(indent)}}`;
}

function valueOf(form: Form, error: ErrorFacts): unknown {
  if (typeof form === 'string') return expressions[form](error);
  if (isList(form)) return form.map((item) => valueOf(item, error));
  return Object.fromEntries(Object.entries(form).map(([name, part]) => [name, valueOf(part, error)]));
}

function isList(form: Form): form is readonly [Form] {
  return Array.isArray(form);
}

function formOfContent({ mediaType, schema }: Content): ErrorForm | undefined {
  const body = formOf(shapeOf(schema), '', 0);
  return body === undefined ? undefined : { mediaType, body };
}

/** The maximum nesting of a proposed form. */
const maxDepth = 3;

/** Proposes a form for a value, by the names and types of its members. */
function formOf(shape: Shape, name: string, depth: number): Form | undefined {
  const may = (type: NonNullable<Shape['types']>[number]) => shape.types?.includes(type) ?? true;
  if (depth > maxDepth) return undefined;
  if (may('object') && Object.keys(shape.properties).length > 0) {
    const all = Object.entries(shape.properties).flatMap(([key, part]): [string, Form][] => {
      const form = formOf(part, key, depth + 1);
      return form === undefined ? [] : [[key, form]];
    });
    // A list of details says nothing more than what is beside it.
    const needed = all.filter(([key, form]) => shape.required.includes(key) || !isList(form));
    const members = needed.length > 0 ? needed : all;
    const isComplete = shape.required.every((key) => members.some(([known]) => known === key));
    return isComplete && members.length > 0 ? Object.fromEntries(members) : undefined;
  }
  if (may('object') && shape.additional) {
    const { types, items } = shape.additional;
    if (types?.includes('array') && items?.types?.includes('string')) return 'byField(error)';
    const form = formOf(shape.additional, name, depth + 1);
    return form === undefined ? undefined : { request: form };
  }
  if (shape.types?.join() === 'array') {
    const item = formOf(shape.items ?? shape, name.replace(/s$/, ''), depth + 1);
    return item === undefined ? undefined : [item];
  }
  return meanings.find(
    ([pattern, type]) => pattern.test(name) && (may(type) || (type === 'integer' && may('number'))),
  )?.[2];
}
