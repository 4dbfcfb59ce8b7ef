// Parses cookies.

/** Parses a Cookie header (RFC 6265 section 4.2); a repeated name gives an array. */
export function parseCookies(header: string): Record<string, unknown> {
  const values = Object.create(null) as Record<string, unknown>;
  for (const pair of header.split(';')) {
    const [name, value] = pair.split(/=([^]*)/, 2).map((text) => text.trim());
    if (value === undefined || name === undefined) continue;
    values[name] = name in values ? [values[name], value].flat() : decode(value);
  }
  return values;
}

/** Decodes a percent-encoded text; returns any other text unchanged. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
