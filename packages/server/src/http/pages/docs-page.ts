// Serves Swagger UI for the contract without external resources, under a strict Content-Security-Policy.
import type { FastifyInstance } from 'fastify';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Contract } from '../../contract/contract.js';
import { page, scriptOf, style } from './docs-page-parts.js';
import { serveFile } from './public-file.js';

const { resolve } = createRequire(import.meta.url);

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

/** The headers of the page and its parts. */
const pageHeaders = {
  'content-security-policy': contentSecurityPolicy,
  'referrer-policy': 'no-referrer',
};

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
  // Relative, so that it works under a proxy's path prefix.
  for (const url of ['/', '/docs']) {
    if (app.hasRoute({ method: 'GET', url })) continue;
    app.route({ method: ['GET', 'HEAD'], url, handler: (_request, reply) => reply.redirect('docs/') });
  }

  const serve = (name: string, mediaType: string, cacheControl: string, read: () => Promise<Buffer>) => {
    serveFile(app, { url: `/docs/${name}`, mediaType, cacheControl, headers: pageHeaders, read });
  };
  serve('', 'text/html; charset=utf-8', 'no-cache', () =>
    Promise.resolve(Buffer.from(page(files, String(document.info.title)))),
  );
  /** Serves a part of the page, which @fastify/swagger-ui ships unless its text is given. */
  const servePart = (name: string, mediaType: string, text?: string) => {
    const shipped = () => readFile(resolve(`@fastify/swagger-ui/static/${name}`));
    const read = text === undefined ? shipped : () => Promise.resolve(Buffer.from(text));
    serve(`${files}/${name}`, mediaType, 'public, max-age=31536000, immutable', read);
  };
  servePart('page.js', 'text/javascript; charset=utf-8', script);
  servePart('page.css', 'text/css; charset=utf-8', style);
  servePart('swagger-ui-bundle.js', 'text/javascript; charset=utf-8');
  servePart('swagger-ui.css', 'text/css; charset=utf-8');
  servePart('favicon-32x32.png', 'image/png');
}
