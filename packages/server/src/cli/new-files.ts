// The files of a new service: copies of templates/, in which placeholders are replaced with what the contract needs.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Contract } from '../contract/contract.js';
import type { Operation } from '../contract/operations.js';
import { ownForm, renderText, type ErrorForm } from './error-form.js';
import { keyOf } from './schema-types.js';
import { schemesOf, scopesOf } from './types.js';

/** The dependencies in a package.json. */
export interface Manifest {
  readonly name: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** All that the files of a new service depend on. */
export interface NewService {
  readonly name: string;
  /** The name of the contract's file. */
  readonly file: string;
  readonly contract: Contract;
  /** The form of the errors, or the reason why there is none. */
  readonly errors: ErrorForm | string;
  /** Whether it stores documents and access tokens on the server. */
  readonly hasStore: boolean;
  /** The version or path of contract-server in package.json. */
  readonly dependency: string;
  /** The package.json of contract-server. */
  readonly manifest: Manifest;
}

const templates = fileURLToPath(new URL('../../templates/', import.meta.url));
/** A part of a template that not every service has: the lines between `// ?name` and `// /name`. */
const optionalPart = /^ *(?:\/\/|<!--) \?(\w+)\b.*\n([^]*?)^ *(?:\/\/|<!--) \/\1\b.*\n/gm;
/** A placeholder for text of the service: a comment that is a line of its own, or a part of a line. */
const placeholder = /^ *(?:\/\/|<!--) \$([A-Z]+)\$.*\n|\$([A-Z]+)\$/gm;

/** The texts of the files, by their paths. */
export function filesOf(service: NewService): Record<string, string> {
  const { parts, texts } = contentOf(service);
  const fill = (text: string): string =>
    text.replaceAll(optionalPart, (_, name: string, inner: string) => (parts[name] ? fill(inner) : ''));
  const paths = readdirSync(templates, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(templates, join(entry.parentPath, entry.name)).replaceAll('\\', '/'));
  const files = paths
    .filter((path) => parts[/^src\/(errors|verifiers)\.ts$/.exec(path)?.[1] ?? 'always'])
    .map((path) => {
      // Replaced in one pass, so that text of the contract is never read as a placeholder.
      const text = fill(readFileSync(join(templates, path), 'utf8'))
        .replaceAll(placeholder, (_, line: string | undefined, name: string) => texts[line ?? name] ?? '')
        .replaceAll(/\n{3,}/g, '\n\n')
        .replace(/\n+$/, '\n');
      // npm packs no .gitignore.
      return [path === 'gitignore' ? '.gitignore' : path, text] as const;
    });
  const all = Object.fromEntries(files);
  return { ...all, 'package.json': packageJson(all['package.json']!, service) };
}

/** Returns the optional parts that a service has, and the text for each placeholder. */
function contentOf(service: NewService) {
  const { name, file, contract, errors, hasStore } = service;
  const words = name.replaceAll(/[^a-z0-9]+/g, '_');
  const form = typeof errors === 'string' ? '' : renderText(errors);
  const verifiers = verifiersOf(service);
  const parts: Readonly<Record<string, boolean>> = {
    always: true,
    store: hasStore,
    noStore: !hasStore,
    errors: errors !== ownForm,
    missing: form === '',
    forms: form !== '',
    fields: form.includes('byField(error)'),
    verifiers: verifiers !== '',
  };
  const texts: Readonly<Record<string, string>> = {
    NAME: name,
    CONTRACT: file,
    WORDS: `${words}_`,
    METRICS: `${words.replace(/^(?=\d)/, '_')}_`,
    // Escapes the title, which could contain Markdown.
    TITLE: oneLine(String(contract.document.info.title)).replaceAll(/[\\`*_{}[\]<>#&|~!]/g, '\\$&'),
    HANDLERS: contract.operations.map(stub).join(''),
    SCOPES: scopesOf(contract)
      .map((scope) => `  ${keyOf(scope)}: true,\n`)
      .join(''),
    VERIFIERS: verifiers,
    FORMS: form,
    MISSING: typeof errors === 'string' ? oneLine(errors).replaceAll('*/', '*\\/') : '',
    CALLERS: callers(service),
  };
  return { parts, texts };
}

function packageJson(text: string, { errors, hasStore, dependency, manifest }: NewService): string {
  const { engines, peerDependencies, devDependencies } = manifest;
  const content = JSON.parse(text) as { scripts: { check: string; migrations?: string } };
  const { scripts } = content;
  if (errors !== ownForm) scripts.check += ' --own-errors';
  if (!hasStore) delete scripts.migrations;
  const dependencies = Object.entries({ ...peerDependencies, 'contract-server': dependency });
  const sorted = Object.fromEntries(dependencies.sort(([a], [b]) => (a < b ? -1 : 1)));
  return `${JSON.stringify({ ...content, engines, dependencies: sorted, devDependencies }, undefined, 2)}\n`;
}

/** An operation that is not implemented, as a member of the handlers. */
function stub(operation: Operation): string {
  const { operationId, method, path, declared } = operation;
  const { summary } = declared.operation as { summary?: unknown };
  const said = typeof summary === 'string' ? `: ${summary}` : '';
  return `    // ${oneLine(`${method} ${path}${said}`)}\n    ${keyOf(operationId)}: notImplemented,\n`;
}

/** A text for a comment, which its line ends. */
function oneLine(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ');
}

/** The scheme whose credentials the server verifies itself: the first one that has bearer tokens. */
function builtInOf({ contract, hasStore }: NewService): string | undefined {
  const used = schemesOf(contract);
  const ofKind = (...kinds: string[]) =>
    used.find((name) => kinds.includes(contract.securitySchemes[name]!.kind));
  return hasStore ? (ofKind('bearer') ?? ofKind('oauth2', 'openIdConnect')) : undefined;
}

/** The verifiers that the service must have; empty if the built-in one is all that it needs. */
function verifiersOf(service: NewService): string {
  const { contract, hasStore } = service;
  const { securitySchemes } = contract;
  const builtIn = builtInOf(service);
  const used = schemesOf(service.contract);
  const bearers = Object.values(securitySchemes).filter(({ kind }) => kind === 'bearer');
  const isImplied =
    builtIn !== undefined && bearers.length === 1 && securitySchemes[builtIn]!.kind === 'bearer';
  if (isImplied && used.length === 1) return '';
  return used
    .map((name) => {
      const scheme = securitySchemes[name]!;
      const isToken =
        hasStore &&
        scheme.kind === 'apiKey' &&
        scheme.in === 'header' &&
        /^authorization$/i.test(scheme.name);
      const hint = isToken
        ? '    // For tokens of the service, as in "Authorization: Token ACCESS_TOKEN":\n    // { builtIn: { prefix: "Token " } }\n'
        : '';
      if (name !== builtIn) return `${hint}    ${keyOf(name)}: () => undefined,\n`;
      return `    // It takes the access tokens of the service.\n    ${keyOf(name)}: "built-in",\n`;
    })
    .join('');
}

function callers(service: NewService): string {
  const builtIn = builtInOf(service);
  const used = schemesOf(service.contract);
  const stubs = used.filter((name) => name !== builtIn).map((name) => `\`${name}\``);
  if (used.length === 0) return 'All operations are public.\n';
  const own = `The server verifies the tokens of \`${builtIn}\` itself. The first start prints one,
and this makes another:

\`\`\`sh
node dist/cli.js token create SUBJECT
\`\`\`
`;
  const others = `Write a verifier for each of these security schemes in
[src/verifiers.ts](src/verifiers.ts). Until then, they refuse every caller:
${stubs.join(', ')}.
`;
  return [builtIn && own, stubs.length > 0 && others].filter(Boolean).join('\n');
}
