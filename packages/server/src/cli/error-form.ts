// Finds out how the errors of the server can have the form that a contract declares.
import type { Contract } from '../contract/contract.js';
import type { Content } from '../contract/responses.js';
import type { Shape } from '../contract/shape.js';
import type { ErrorFacts, RenderedError } from '../errors.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { Compiler } from '../http/request/validation.js';

/** A form of errors: an expression, or the forms of the members of an object. */
export type Form = Expression | { readonly [name: string]: Form } | readonly [Form];

/** The errors that a contract declares. */
export interface ErrorForm {
  readonly mediaType: string;
  readonly body: Form;
}

/** What a member of an error can be, as code and as a function. */
const expressions = {
  'error.statusCode': (error: ErrorFacts) => error.statusCode,
  'String(error.statusCode)': (error: ErrorFacts) => String(error.statusCode),
  'error.code': (error: ErrorFacts) => error.code,
  'String(error.code)': (error: ErrorFacts) => String(error.code),
  'error.title': (error: ErrorFacts) => error.title,
  'error.detail': (error: ErrorFacts) => error.detail,
  'error.message': (error: ErrorFacts) => error.message,
  '"about:blank"': () => 'about:blank',
  'new Date().toISOString()': () => new Date().toISOString(),
};
type Expression = keyof typeof expressions;

/** What members of a name usually mean, for each of their types. */
const meanings: readonly [name: RegExp, type: 'integer' | 'string', expression: Expression][] = [
  [/^(http_?)?status(_?code)?$/i, 'integer', 'error.statusCode'],
  [/^(http_?)?status(_?code)?$/i, 'string', 'String(error.statusCode)'],
  [/^(error_?)?code$|^error$/i, 'integer', 'error.code'],
  [/^(error_?)?code$/i, 'string', 'String(error.code)'],
  [/^title$|^error$|^name$/i, 'string', 'error.title'],
  [/^details?$/i, 'string', 'error.detail'],
  [/message|^msg$|description|reason/i, 'string', 'error.message'],
  [/^type$/i, 'string', '"about:blank"'],
  [/^time(stamp)?$/i, 'string', 'new Date().toISOString()'],
];
/** Where the first choice does not fit: many codes are statuses, and a message may be needed always. */
const secondChoices: Readonly<Partial<Record<Expression, Expression>>> = {
  'error.code': 'error.statusCode',
  'String(error.code)': 'String(error.statusCode)',
  'error.detail': 'error.message',
};

/** The form that the server's errors have by themselves. */
export const ownForm: ErrorForm = {
  mediaType: 'application/json',
  body: { error: 'error.code', message: 'error.message' },
};

/**
 * Returns the form in which all errors of the server match a contract; undefined if there is none.
 * @param contract - As a service has it that renders errors itself.
 */
export function findErrorForm({ document, operations }: Contract): ErrorForm | undefined {
  const declared = operations.flatMap(({ errors }) => errors);
  const compiler = new Compiler(document);
  const fits = (form: ErrorForm) => {
    try {
      createErrorRenderer(compiler, operations, { errors: {}, render: (error) => render(form, error) });
      return true;
    } catch {
      return false;
    }
  };
  const contents = declared.flatMap((one) => one.contents).filter(({ isJson }) => isJson);
  const distinct = [...new Map(contents.map((content) => [content.schema, content])).values()];
  const forms = distinct.flatMap(formsOf);
  // Schemas that allow any other members accept the server's own form; but clients expect the members that they name.
  const namesOwn = distinct.every(({ schema: { shape } }) =>
    Object.keys(ownForm.body).every((name) => Object.hasOwn(shape.properties, name)),
  );
  return (namesOwn ? [ownForm, ...forms] : [...forms, ownForm]).find(fits);
}

function render({ mediaType, body }: ErrorForm, error: ErrorFacts): RenderedError {
  return { mediaType, body: valueOf(body, error) as object };
}

function valueOf(form: Form, error: ErrorFacts): unknown {
  if (typeof form === 'string') return expressions[form](error);
  if (isList(form)) return form.map((item) => valueOf(item, error));
  return Object.fromEntries(Object.entries(form).map(([name, part]) => [name, valueOf(part, error)]));
}

export function isList(form: Form): form is readonly [Form] {
  return Array.isArray(form);
}

/** Proposes forms for a body. */
function formsOf({ mediaType, schema: { shape } }: Content): ErrorForm[] {
  return [false, true].flatMap((second) => {
    const body = formOf(shape, '', second, 0);
    return body === undefined ? [] : [{ mediaType, body }];
  });
}

/** How deep the members of a proposed form are nested. */
const maxDepth = 3;

function formOf(shape: Shape, name: string, second: boolean, depth: number): Form | undefined {
  const may = (type: NonNullable<Shape['types']>[number]) => shape.types?.includes(type) ?? true;
  if (depth > maxDepth) return undefined;
  if (may('object') && Object.keys(shape.properties).length > 0) {
    const all = Object.entries(shape.properties).flatMap(([key, part]): [string, Form][] => {
      const form = formOf(part, key, second, depth + 1);
      return form === undefined ? [] : [[key, form]];
    });
    // A list of details says nothing more than what is beside it.
    const needed = all.filter(([key, form]) => shape.required.includes(key) || !isList(form));
    const members = needed.length > 0 ? needed : all;
    const isComplete = shape.required.every((key) => members.some(([known]) => known === key));
    return isComplete && members.length > 0 ? Object.fromEntries(members) : undefined;
  }
  if (shape.types?.join() === 'array') {
    const item = formOf(shape.items ?? shape, name.replace(/s$/, ''), second, depth + 1);
    return item === undefined ? undefined : [item];
  }
  const found = meanings.find(
    ([pattern, type]) => pattern.test(name) && (may(type) || (type === 'integer' && may('number'))),
  )?.[2];
  return (second && found !== undefined && secondChoices[found]) || found;
}
