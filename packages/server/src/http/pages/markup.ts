// Builds HTML from templates, and escapes everything in them that is not HTML already.

/** A piece of HTML. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value that a template may contain; undefined and false are left out. */
export type MarkupPart = string | Markup | undefined | false | readonly MarkupPart[];

/** Makes HTML from a template, and escapes all texts in it. */
export function markup(strings: TemplateStringsArray, ...parts: readonly MarkupPart[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...parts.map(textOf)));
}

function textOf(part: MarkupPart): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Markup) return part.text;
  return typeof part === 'string' ? escapeHtml(part) : part.map(textOf).join('');
}

/** Escapes a text for an element or an attribute in double quotes. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
