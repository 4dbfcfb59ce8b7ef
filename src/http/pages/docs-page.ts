// Serves Swagger UI for the contract without external resources, under a strict Content-Security-Policy.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Contract } from '../../contract/contract.js';
import { acceptsGzip, compressFile } from '../response/compression.js';

const { resolve } = createRequire(import.meta.url);

/**
 * Runs in the browser. Requests go to the page's origin, including a proxy's path prefix. The token is stored for the
 * browser tab only.
 */
const scriptOf = (basePath: string) => `const base = new URL('..', document.baseURI).href;
const dark = matchMedia('(prefers-color-scheme: dark)');
const applyTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', applyTheme);
applyTheme();

const response = await fetch(base + 'openapi.json');
const contract = await response.json();

const stored = 'docs-credentials';
const keepCredentials = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (authorize) => (payload) => {
          const values = Object.entries(payload).map(([name, { value }]) => [name, value]);
          sessionStorage.setItem(stored, JSON.stringify(values));
          return authorize(payload);
        },
        logout: (logout) => (payload) => {
          sessionStorage.removeItem(stored);
          return logout(payload);
        },
      },
    },
  },
});

const ui = SwaggerUIBundle({
  dom_id: '#swagger-ui',
  spec: { ...contract, servers: [{ url: base${basePath === '' ? '' : ` + ${JSON.stringify(basePath.slice(1))}`} }] },
  deepLinking: true,
  validatorUrl: null,
  plugins: [keepCredentials],
  onComplete: () => {
    for (const [name, value] of JSON.parse(sessionStorage.getItem(stored) ?? '[]')) {
      ui.preauthorizeApiKey(name, value);
    }
  },
});
`;

/** Adds a compact header and a layout for narrow screens. */
const style = `body { margin: 0; }
html.dark-mode { background: #1c2022; color-scheme: dark; }
.swagger-ui .info { margin: 20px 0 0; }
.swagger-ui .info summary { cursor: pointer; }
.swagger-ui .scheme-container { margin: 0; padding: 10px 0; box-shadow: none; }
.swagger-ui .scheme-container .servers-title, .swagger-ui .scheme-container .servers { display: none; }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 8px; }
  .swagger-ui .info table, .swagger-ui .info pre { display: block; overflow-x: auto; }
  .swagger-ui .opblock .opblock-summary-description { display: none; }
  .swagger-ui .opblock-summary-path { max-width: none; }
  .swagger-ui .response-col_links { display: none; }
  .swagger-ui .opblock-body { overflow-x: auto; }
}
`;

/** The files that @fastify/swagger-ui ships; `types` has the media types of all files of the page. */
const shipped = ['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png'] as const;
const types = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  png: 'image/png',
} as const;

/** The page may only contact this server, run no inline script, and not be framed. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const page = (files: string, title: string) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${title.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</title>
    <link rel="stylesheet" href="${files}/swagger-ui.css" />
    <link rel="stylesheet" href="${files}/page.css" />
    <link rel="icon" type="image/png" href="${files}/favicon-32x32.png" />
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="${files}/swagger-ui-bundle.js"></script>
    <script type="module" src="${files}/page.js"></script>
  </body>
</html>
`;

/**
 * Serves the page at /docs/ without authentication; / redirects to it. Each file is read and compressed at its first
 * request. The folder name changes with the files, so that browsers can cache them permanently.
 */
export function serveDocsPage(app: FastifyInstance, { document, basePaths }: Contract): void {
  const script = scriptOf(basePaths[0] ?? '');
  const { version } = createRequire(import.meta.url)('@fastify/swagger-ui/package.json') as {
    version: string;
  };
  const files = createHash('sha256').update(version).update(script).update(style).digest('hex').slice(0, 16);
  const method = ['GET', 'HEAD'];
  // Relative, so that it works under a proxy's path prefix.
  for (const url of ['/', '/docs']) {
    if (app.hasRoute({ method: 'GET', url })) continue;
    app.route({ method, url, handler: (_request, reply) => reply.redirect('docs/') });
  }

  const serve = (name: string, type: string, caching: string, read: () => Promise<Buffer>) => {
    let content: Promise<Buffer> | undefined;
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      content ??= read().catch((error: unknown) => {
        // The failure may be temporary, such as a lack of file descriptors.
        content = undefined;
        throw error;
      });
      const file = await content;
      const gzipped = type !== types.png && acceptsGzip(request) ? await compressFile(file) : undefined;
      reply
        .headers({
          'content-security-policy': contentSecurityPolicy,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cache-control': caching,
          vary: 'accept-encoding',
        })
        .type(type);
      if (gzipped === undefined) return reply.send(file);
      return reply.header('content-encoding', 'gzip').send(gzipped);
    };
    app.route({ method, url: `/docs/${name}`, handler });
  };
  serve('', 'text/html; charset=utf-8', 'no-cache', () =>
    Promise.resolve(Buffer.from(page(files, String(document.info.title)))),
  );
  const serveFile = (name: string, read: () => Promise<Buffer>) => {
    const type = types[name.slice(name.lastIndexOf('.') + 1) as keyof typeof types];
    serve(`${files}/${name}`, type, 'public, max-age=31536000, immutable', read);
  };
  serveFile('page.js', () => Promise.resolve(Buffer.from(script)));
  serveFile('page.css', () => Promise.resolve(Buffer.from(style)));
  for (const name of shipped) serveFile(name, () => readFile(resolve(`@fastify/swagger-ui/static/${name}`)));
}
