// Characters that end a line or a comment, or let a text look like another one, where a contract's text is repeated.

/**
 * Control characters, ends of lines of Unicode, unpaired surrogates, and the controls of direction, which make code look
 * like other code (CVE-2021-42574).
 */
const controls = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
const allControls = new RegExp(controls.source, 'gu');

export function hasControls(text: string): boolean {
  return controls.test(text);
}

/** A text on one line, with an escape as of JavaScript in place of each control character. */
export function withoutControls(text: string): string {
  return text.replaceAll(allControls, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
