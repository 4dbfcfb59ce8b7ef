// Serves the documentation page of the contract, without external resources, under a strict Content-Security-Policy.
import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Contract } from '../../contract/contract.js';
import { writePage } from './docs-html.js';
import { serveFile } from './public-file.js';

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
 * Serves the page at /docs/ without authentication; / redirects to it, unless the service serves that. It is written at
 * its first request. The folder of its script and style changes with them, so that browsers can cache them permanently.
 */
export function serveDocsPage(app: FastifyInstance, contract: Contract): void {
  const parts = [
    ['page.js', 'text/javascript; charset=utf-8'],
    ['page.css', 'text/css; charset=utf-8'],
  ].map(([name = '', mediaType = '']) => {
    return { name, mediaType, content: readFileSync(new URL(`files/${name}`, import.meta.url)) };
  });
  const digest = createHash('sha256');
  for (const { content } of parts) digest.update(content);
  const files = digest.digest('hex').slice(0, 16);
  const isTaken = (url: string) => app.hasRoute({ method: 'GET', url });
  // A folder of files at the root has a page of its own there.
  for (const url of isTaken('/*') ? ['/docs'] : ['/', '/docs']) {
    if (isTaken(url)) continue;
    // Relative, so that it works under a proxy's path prefix.
    const handler: RouteHandlerMethod = (_request, reply) =>
      reply.header('cache-control', 'no-cache').redirect('docs/');
    app.route({ method: ['GET', 'HEAD'], url, config: { isOfServer: true }, handler });
  }
  serveFile(app, {
    url: '/docs/',
    mediaType: 'text/html; charset=utf-8',
    cacheControl: 'no-cache',
    headers: pageHeaders,
    content: () => Buffer.from(writePage(contract, files)),
  });
  for (const { name, mediaType, content } of parts) {
    serveFile(app, {
      url: `/docs/${files}/${name}`,
      mediaType,
      cacheControl: 'public, max-age=31536000, immutable',
      headers: pageHeaders,
      content: () => content,
    });
  }
}
