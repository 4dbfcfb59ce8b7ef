// Requests of an operation in several languages, with the values of its examples.
import type { Operation } from '../../contract/operations.js';
import { markup, type Markup } from './markup.js';

/** The place of the credentials in a request, and the text before the secret. */
export interface Credential {
  readonly place: 'header' | 'query';
  readonly name: string;
  readonly prefix: string;
}

/** A parameter and its value. */
export interface SampleValue {
  readonly place: unknown;
  readonly name: string;
  readonly required: unknown;
  readonly text: string;
}

/** A request to show. */
interface Sample {
  readonly method: string;
  /** The path and query. */
  readonly target: string;
  /** The headers. The one with the secret has only the text before it. */
  readonly headers: readonly { name: string; value: string; isSecret?: boolean }[];
  readonly body: string | undefined;
}

/** Makes the shortest request that an operation accepts. */
export function sampleOf(
  { method, path, basePaths }: Operation,
  values: readonly SampleValue[],
  credential: Credential | undefined,
  body: { readonly type: string; readonly text: string } | undefined,
): Sample {
  const fill = (url: string, { name, text }: SampleValue) =>
    url.replace(`{${name}}`, () => encodeURIComponent(text));
  const filled = values.filter(({ place }) => place === 'path').reduce(fill, path);
  const required = values.filter((one) => one.required === true);
  const query = required
    .filter(({ place }) => place === 'query')
    .map(({ name, text }) => `${encodeURIComponent(name)}=${encodeURIComponent(text)}`);
  if (credential?.place === 'query') query.push(`${encodeURIComponent(credential.name)}=TOKEN`);
  const { name = '', prefix = '', place = 'query' } = credential ?? {};
  return {
    method,
    target: `${basePaths[0] ?? ''}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`,
    headers: [
      ...(place === 'header' ? [{ name, value: prefix, isSecret: true }] : []),
      ...required.filter((one) => one.place === 'header').map((one) => ({ name: one.name, value: one.text })),
      ...(body ? [{ name: 'Content-Type', value: body.type }] : []),
    ],
    body: body?.text,
  };
}

/** A request in each language; the script of the page fills in the URL of the service. */
export function samplesIn(sample: Sample): [language: string, code: Markup][] {
  const base = 'https://HOST';
  const languages = { curl, TypeScript: typeScript, Python: python };
  return Object.entries(languages).map(([language, write]) => {
    const code = write(sample, base);
    const at = code.indexOf(base);
    return [
      language,
      markup`${code.slice(0, at)}<span class="base">${base}</span>${code.slice(at + base.length)}`,
    ];
  });
}

function curl({ method, target, headers, body }: Sample, base: string): string {
  const shell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = [
    `curl -i ${method === 'HEAD' ? '--head' : `-X ${method}`} ${shell(base + target)}`,
    ...headers.map(({ name, value, isSecret }) =>
      // A secret in an argument could be read by every user of the machine.
      isSecret ? `-H @- <<< ${shell(`${name}: ${value}`)}"$TOKEN"` : `-H ${shell(`${name}: ${value}`)}`,
    ),
    ...(body === undefined ? [] : [`--data-raw ${shell(body)}`]),
  ];
  return parts.join(' \\\n  ');
}

function typeScript({ method, target, headers, body }: Sample, base: string): string {
  const lines = headers.map(
    ({ name, value, isSecret }) =>
      `    ${quoted(name)}: ${quoted(value)}${isSecret ? ' + process.env.TOKEN' : ''},\n`,
  );
  return `const response = await fetch(${quoted(base + target)}, {
  method: ${quoted(method)},
  headers: {
${lines.join('')}  },
${body === undefined ? '' : `  body: ${quoted(body)},\n`}});
console.log(response.status, await response.text());`;
}

function python({ method, target, headers, body }: Sample, base: string): string {
  const lines = headers.map(
    ({ name, value, isSecret }) =>
      `        ${quoted(name)}: ${quoted(value)}${isSecret ? " + os.environ['TOKEN']" : ''},\n`,
  );
  return `import os
import requests

response = requests.request(
    ${quoted(method)},
    ${quoted(base + target)},
    headers={
${lines.join('')}    },
${body === undefined ? '' : `    data=${quoted(body)}.encode(),\n`})
print(response.status_code, response.text)`;
}

/** A literal of TypeScript and Python. */
function quoted(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}
