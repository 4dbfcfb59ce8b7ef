// Finds the form in which the server's errors match those that a contract declares, and writes it as code.
import type { Contract } from '../contract/contract.js';
import type { Operation } from '../contract/operations.js';
import { keysOf, type Content } from '../contract/responses.js';
import { shapeOf, type Shape } from '../contract/schema/shape.js';
import type { ErrorFacts, RenderedError } from '../base/errors.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { Compiler } from '../http/request/validation/validation.js';
import { keyOf, quoted } from './schema-types.js';
import { messageOf } from '../storage/core/interface.js';

/** A form of errors: an expression, or the forms of the members of an object. */
export type Form = Expression | { readonly [name: string]: Form } | readonly [Form];

/** A form of errors that a contract declares. */
interface ErrorForm {
  readonly mediaType: string;
  readonly body: Form;
}

/** The forms of errors: of some statuses, and the last one of all others. */
export type ErrorForms = readonly { readonly statuses: readonly number[]; readonly form: ErrorForm }[];

/** The values that a member of an error can have, each as code and as a function. */
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
  [/^details?$/i, 'string', 'error.detail'],
  [/message|^msg$|description|reason/i, 'string', 'error.message'],
  [/^type$/i, 'string', '"about:blank"'],
  [/^time(stamp)?$/i, 'string', 'new Date().toISOString()'],
];
/** The second choice, where the first does not fit: many codes are statuses, and a message may always be needed. */
const secondChoices: Readonly<Partial<Record<Expression, Expression>>> = {
  'error.code': 'error.statusCode',
  'String(error.code)': 'String(error.statusCode)',
  'error.detail': 'error.message',
};

/** The form that the server's errors have by themselves. */
const ownForm: ErrorForm = {
  mediaType: 'application/json',
  body: { error: 'error.code', message: 'error.message' },
};
/** A form for the errors of all statuses. */
export const ownForms: ErrorForms = [{ statuses: [], form: ownForm }];

type Declaring = Pick<Operation, 'errors' | 'statusOf'>;

/**
 * Returns the forms in which all errors of the server match a contract: one if possible, otherwise by status. If none are
 * found, returns what does not match.
 * @param contract - As a service has it that renders errors itself.
 */
export function findErrorForms({ document, operations }: Contract): ErrorForms | string {
  const compiler = new Compiler(document);
  const isExact = (key: string) => /^\d{3}$/.test(key);
  const keys = operations.flatMap(({ errors }) => errors.map(({ key }) => key));
  const statuses = [...new Set(keys.filter(isExact).map(Number))];
  // Handlers may have errors of statuses that the server itself does not have.
  const errors = Object.fromEntries(
    statuses.map((status) => [`of ${status}`, { code: status * 100 + 99, message: 'The request failed.' }]),
  );
  const mismatchOf = (forms: ErrorForms, of: readonly Declaring[] = operations): string | undefined => {
    try {
      createErrorRenderer(compiler, of, { errors, render: (error) => render(forms, error) });
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  };
  const find = (of: readonly Declaring[], first: readonly ErrorForm[] = []) =>
    [...first, ...candidatesOf(of)].find((form) => mismatchOf([{ statuses: [], form }], of) === undefined);

  const single = find(operations);
  if (single !== undefined) return single === ownForm ? ownForms : [{ statuses: [], form: single }];
  const others = operations.map(({ errors, statusOf }) => ({
    statusOf,
    errors: errors.filter(({ key }) => !isExact(key)),
  }));
  const rest = find(others);
  const forms = new Map<string, { statuses: number[]; form: ErrorForm }>();
  for (const status of statuses) {
    const form = rest && find(at(operations, status), [rest]);
    if (form === undefined) return mismatchOf(ownForms) ?? `the status ${status}`;
    if (form === rest) continue;
    const same = forms.get(JSON.stringify(form)) ?? { statuses: [], form };
    same.statuses.push(status);
    forms.set(JSON.stringify(form), same);
  }
  if (rest === undefined) return mismatchOf(ownForms) ?? 'the statuses that are not declared one by one';
  const all = [...forms.values(), { statuses: [], form: rest }];
  return mismatchOf(all) ?? all;
}

/** The operations with what they declare for a status, as if that were all. */
function at(operations: readonly Declaring[], status: number): readonly Declaring[] {
  return operations.map(({ errors, statusOf }) => {
    const key = keysOf(status).find((one) => errors.some((declared) => declared.key === one));
    const declared = errors.filter((one) => one.key === key);
    return { statusOf, errors: declared.map((one) => ({ ...one, key: String(status) })) };
  });
}

/** Proposes forms for what operations declare. */
function candidatesOf(operations: readonly Declaring[]): readonly ErrorForm[] {
  const contents = operations
    .flatMap(({ errors }) => errors)
    .flatMap((one) => one.contents)
    .filter(({ isJson }) => isJson);
  const distinct = [...new Map(contents.map((content) => [content.schema, content])).values()];
  const forms = distinct.flatMap(formsOf);
  // Schemas that allow any other members accept the server's own form; but clients expect the members that they name.
  const namesOwn = distinct.every(({ schema }) =>
    Object.keys(ownForm.body).every((name) => Object.hasOwn(shapeOf(schema).properties, name)),
  );
  return namesOwn ? [ownForm, ...forms] : [...forms, ownForm];
}

function render(forms: ErrorForms, error: ErrorFacts): RenderedError {
  const one = forms.find(({ statuses }) => statuses.includes(error.statusCode)) ?? forms.at(-1)!;
  return { mediaType: one.form.mediaType, body: valueOf(one.form.body, error) as object };
}

/** The body of the function `renderError`. */
export function renderText(forms: ErrorForms): string {
  return forms
    .map(({ statuses, form: { mediaType, body } }) => {
      const result = `return {\n    mediaType: ${quoted(mediaType)},\n    body: ${formText(body, 4)},\n  };\n`;
      return statuses.length === 0
        ? `  ${result}`
        : `  if ([${statuses.join(', ')}].includes(error.statusCode)) {\n    ${result.replaceAll('\n', '\n  ').trimEnd()}\n  }\n`;
    })
    .join('');
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

/** Proposes forms for a body. */
function formsOf({ mediaType, schema }: Content): ErrorForm[] {
  return [false, true].flatMap((second) => {
    const body = formOf(shapeOf(schema), '', second, 0);
    return body === undefined ? [] : [{ mediaType, body }];
  });
}

/** The maximum nesting of a proposed form. */
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
  if (may('object') && shape.additional) {
    const { types, items } = shape.additional;
    if (types?.includes('array') && items?.types?.includes('string')) return 'byField(error)';
    const form = formOf(shape.additional, name, second, depth + 1);
    return form === undefined ? undefined : { request: form };
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
