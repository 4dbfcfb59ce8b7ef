// Reads what people need of a contract and its normal form leaves out: descriptions, examples and names.
import { Marked } from 'marked';
import { parse, stringify } from 'yaml';
import { stepsOf } from '../../contract/document/finding.js';
import { escapeHtml, Markup } from './markup.js';

export type Fields = Readonly<Record<string, unknown>>;

/** A contract that the server has accepted, as it is written, with exact integers. */
export class ContractReader {
  readonly root: Fields;

  constructor(bytes: Buffer) {
    const options = { intAsBigInt: true, merge: true, uniqueKeys: false, maxAliasCount: -1 } as const;
    this.root = parse(bytes.toString(), options) as Fields;
  }

  /** The fields of an object, and those of what it refers to; none of anything else. */
  fields(value: unknown): Fields {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
    const { $ref, ...own } = value as Fields;
    if (typeof $ref !== 'string') return value as Fields;
    const target = stepsOf($ref)?.reduce<unknown>((at, step) => this.fields(at)[step], this.root);
    return { ...this.fields(target), ...own };
  }

  entries(value: unknown): [name: string, fields: Fields][] {
    return Object.entries(this.fields(value)).map(([name, one]) => [name, this.fields(one)]);
  }

  list(value: unknown): Fields[] {
    return Array.isArray(value) ? value.map((one) => this.fields(one)) : [];
  }

  /** The examples of a parameter, a header or a body, with what each shows. */
  examples(given: Fields): { summary: string; value: unknown }[] {
    const named = this.entries(given['examples']).filter(([, one]) => 'value' in one);
    if (named.length > 0)
      return named.map(([name, one]) => ({ summary: text(one['summary']) ?? name, value: one['value'] }));
    const { example, examples } = this.fields(given['schema']);
    const [value] = [given['example'], example, Array.isArray(examples) ? examples[0] : undefined].filter(
      (one: unknown) => one !== undefined,
    );
    return value === undefined ? [] : [{ summary: 'Example', value }];
  }
}

/** Returns a value if it is a string; otherwise undefined. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Formats a value as a request would send it: strings unchanged, everything else as JSON, indented if it is long. */
export function sent(value: unknown): string {
  if (typeof value === 'string') return value;
  return stringify(value, {
    collectionStyle: 'flow',
    defaultKeyType: 'QUOTE_DOUBLE',
    defaultStringType: 'QUOTE_DOUBLE',
    doubleQuotedAsJSON: true,
    lineWidth: 0,
  }).trimEnd();
}

/** Formats a value as YAML, with links to the schemas that it refers to. */
export function yaml(value: unknown): Markup {
  const lines = escapeHtml(stringify(value, { lineWidth: 80, aliasDuplicateObjects: false }).trimEnd());
  return new Markup(
    lines.replaceAll(
      /#\/components\/schemas\/([\w.-]+)/g,
      '<a href="#schema-$1">#/components/schemas/$1</a>',
    ),
  );
}

const markdownParser = new Marked({
  async: false,
  renderer: {
    // HTML in a description is shown as text.
    html: ({ text }) => escapeHtml(text),
    // A link that would run a script is shown as text.
    link({ href, tokens }) {
      const content = this.parser.parseInline(tokens);
      return /^(?:https?:|mailto:|[^:]*$)/i.test(href)
        ? `<a href="${escapeHtml(href)}">${content}</a>`
        : content;
    },
    // The headings of the page have an order of their own.
    heading({ tokens }) {
      return `<p><strong>${this.parser.parseInline(tokens)}</strong></p>`;
    },
  },
});

/** Renders a description. */
export function markdown(value: unknown): Markup | undefined {
  const given = text(value);
  return given === undefined ? undefined : new Markup(markdownParser.parse(given, { async: false }));
}
