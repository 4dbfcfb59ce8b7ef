// Serves Swagger UI for the contract without external resources, under a strict Content-Security-Policy.
import type { FastifyInstance } from 'fastify';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Contract } from '../../contract/contract.js';
import { serveFile } from './public-file.js';

const require = createRequire(import.meta.url);
/** Has what the page consists of besides Swagger UI. */
const folder = new URL('files/', import.meta.url);

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
  const { version } = require('@fastify/swagger-ui/package.json') as { version: string };
  const [script, style] = ['page.js', 'page.css'].map((name) => readFileSync(new URL(name, folder)));
  const files = createHash('sha256')
    .update(version)
    .update(script!)
    .update(style!)
    .digest('hex')
    .slice(0, 16);
  // Relative, so that it works under a proxy's path prefix.
  for (const url of ['/', '/docs']) {
    if (app.hasRoute({ method: 'GET', url })) continue;
    app.route({ method: ['GET', 'HEAD'], url, handler: (_request, reply) => reply.redirect('docs/') });
  }

  const serve = (name: string, mediaType: string, cacheControl: string, read: () => Promise<Buffer>) => {
    serveFile(app, { url: `/docs/${name}`, mediaType, cacheControl, headers: pageHeaders, read });
  };
  const values = { files, title: String(document.info.title), basePath: basePaths[0] ?? '' };
  serve('', 'text/html; charset=utf-8', 'no-cache', async () => {
    const page = await readFile(new URL('page.html', folder), 'utf8');
    return Buffer.from(page.replaceAll(/{{(\w+)}}/g, (_, name: keyof typeof values) => escape(values[name])));
  });
  /** Serves a part of the page, which @fastify/swagger-ui ships unless its content is given. */
  const servePart = (name: string, mediaType: string, content?: Buffer) => {
    const read = async () => content ?? readFile(require.resolve(`@fastify/swagger-ui/static/${name}`));
    serve(`${files}/${name}`, mediaType, 'public, max-age=31536000, immutable', read);
  };
  servePart('page.js', 'text/javascript; charset=utf-8', script);
  servePart('page.css', 'text/css; charset=utf-8', style);
  servePart('swagger-ui-bundle.js', 'text/javascript; charset=utf-8');
  servePart('swagger-ui.css', 'text/css; charset=utf-8');
  servePart('favicon-32x32.png', 'image/png');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
