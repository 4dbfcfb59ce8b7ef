// The interactive page over the contract: Swagger UI, whole from this server, under a strict Content-Security-Policy.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Plant Store</title>
    <link rel="stylesheet" href="swagger-ui.css" />
    <link rel="icon" type="image/png" href="favicon-32x32.png" />
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="swagger-ui-bundle.js"></script>
    <script type="module" src="start.js"></script>
  </body>
</html>
`;

/**
 * Runs in the browser. Requests go to where the page came from, under a path of a proxy's too.
 */
const script = `const base = new URL('..', document.baseURI).href;
const response = await fetch(base + 'openapi.json');
const contract = await response.json();
SwaggerUIBundle({
  dom_id: '#swagger-ui',
  spec: { ...contract, servers: [{ url: base }] },
  deepLinking: true,
  validatorUrl: null,
});
`;

/** The page loads and asks nothing but this server, runs no inline script and can be put in no frame. */
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

/** The files of Swagger UI, as @fastify/swagger-ui ships them, and their media types. */
const files = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

/**
 * Serves the page at /docs/, for which no token is needed; / leads there. Its files are served from here and not by
 * their plugin, which takes longer to load than the service to start. They are read when the page is first asked for.
 */
export function serveDocsPage(app: FastifyInstance): void {
  const { resolve } = createRequire(import.meta.url);
  const method = ['GET', 'HEAD'];
  // Relative, so that it holds under a path of a proxy's too.
  for (const url of ['/', '/docs']) {
    app.route({ method, url, handler: (_request, reply) => reply.redirect('docs/') });
  }

  const serve = (name: string, type: string, read: () => Promise<Buffer>) => {
    let content: Promise<Buffer> | undefined;
    const handler = async (_request: FastifyRequest, reply: FastifyReply) => {
      content ??= read().catch((error: unknown) => {
        // Whatever was lacking, as a descriptor, may be there for the next reader.
        content = undefined;
        throw error;
      });
      return reply
        .headers({
          'content-security-policy': contentSecurityPolicy,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cache-control': 'no-cache',
        })
        .type(type)
        .send(await content);
    };
    app.route({ method, url: `/docs/${name}`, handler });
  };
  serve('', 'text/html; charset=utf-8', () => Promise.resolve(Buffer.from(html)));
  serve('start.js', 'text/javascript; charset=utf-8', () => Promise.resolve(Buffer.from(script)));
  for (const [name, type] of Object.entries(files)) {
    serve(name, type, () => readFile(resolve(`@fastify/swagger-ui/static/${name}`)));
  }
}
