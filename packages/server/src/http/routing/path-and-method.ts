// Refuses unknown paths, unsupported methods and malformed targets before the body is read.
import type { FastifyInstance, FastifyRequest, RawRequestDefaultExpression } from 'fastify';
import { ApiError } from '../../base/errors.js';

/** An absolute URL without user information (RFC 9110 section 4.2.4). */
const absoluteUrl = /^https?:\/\/[^/?@]+(?:[/?].*)?$/i;
/** A target that never has a route. */
const unroutable = '//';

/**
 * Replaces targets to which the router would respond without running the hooks: those that are not URL paths, and `*`, which
 * means the server and is valid with OPTIONS only (RFC 9112 section 3.2.4). Fastify's rewriteUrl.
 */
export function rewriteTarget({ url = '/' }: RawRequestDefaultExpression): string {
  return url === '*' || isMalformed(url) ? unroutable : url;
}

/**
 * Whether a target is neither an absolute path nor an absolute URL, contains user information (RFC 9110 section 4.2.4)
 * or a fragment (RFC 9112 section 3.2), or has invalid percent-encoding.
 */
function isMalformed(target: string): boolean {
  if (target.includes('#')) return true;
  const isAbsolutePath = target.startsWith('/');
  if (!isAbsolutePath && !(absoluteUrl.test(target) && URL.canParse(target))) return true;
  if (!target.includes('%')) return false;
  try {
    decodeURI(target.split('?', 1)[0] ?? '');
    return false;
  } catch {
    return true;
  }
}

/**
 * Whether a path parameter is empty, as in `/books/`. Such a path identifies nothing, so it has no route. The rest of a path
 * that a wildcard takes may be empty: that is the folder itself.
 */
function hasEmptyParameter(params: unknown): boolean {
  for (const name in params as object) {
    if (name !== '*' && (params as Record<string, unknown>)[name] === '') return true;
  }
  return false;
}

/**
 * Adds an onRequest hook that refuses malformed targets, unknown paths and unsupported methods. Call it after CORS,
 * which responds to preflights, and before registering routes. A scope with a handler of its own for unknown paths gets
 * those.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  // For plugins that find nothing themselves, such as a folder without the file.
  app.setNotFoundHandler(() => {
    throw new ApiError('pathNotFound');
  });
  app.addHook('onRequest', (request, _reply, done) => {
    // CORS has a route for every OPTIONS request; those that reach this hook are not preflights.
    if (!request.is404 && request.method !== 'OPTIONS' && !hasEmptyParameter(request.params)) {
      done();
      return;
    }
    if (request.url === unroutable) {
      const wellFormed = request.method === 'OPTIONS' ? ['*', unroutable] : [unroutable];
      done(new ApiError(wellFormed.includes(request.originalUrl) ? 'pathNotFound' : 'malformedTarget'));
      return;
    }
    const [url = '/'] = request.url.split('?', 1);
    const allow = methodsOf(app, url).join(', ');
    if (allow !== '') {
      done(new ApiError('methodNotAllowed', { headers: { allow }, detail: `it supports ${allow}` }));
      return;
    }
    if (request.is404 && request.server !== app) {
      done();
      return;
    }
    const isLonger = url.endsWith('/') && methodsOf(app, url.slice(0, -1)).length > 0;
    done(new ApiError('pathNotFound', isLonger ? { detail: 'the path must not end with a slash' } : {}));
  });
}

/** The methods of a path. */
function methodsOf(app: FastifyInstance, url: string): string[] {
  return app.supportedMethods.filter((method) => {
    // findRoute returns null without a route, although its type does not say so.
    const route = app.findRoute({ method, url }) as Pick<FastifyRequest, 'params'> | null;
    return method !== 'OPTIONS' && route !== null && !hasEmptyParameter(route.params);
  });
}
