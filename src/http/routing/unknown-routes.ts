// Unknown paths, wrong methods and malformed targets: refused before a byte of the body is read.
import type { FastifyInstance, FastifyRequest, RawRequestDefaultExpression } from 'fastify';
import { ApiError } from '../../errors.js';

/** A target for which there is no route, whatever is registered. */
const unroutable = '//';

/**
 * Keeps from the router what it would answer by itself, without the hooks: a target that is no URL path, and `*`, which
 * stands for the server and no path, and with OPTIONS only (RFC 9112 section 3.2.4). Fastify's rewriteUrl.
 */
export function rewriteTarget({ url = '/' }: RawRequestDefaultExpression): string {
  return url === '*' || isMalformed(url) ? unroutable : url;
}

/**
 * Whether a target is neither an absolute path nor an absolute URL, has a user's name or password (RFC 9110 section
 * 4.2.4), or escapes that stand for nothing.
 */
function isMalformed(target: string): boolean {
  if (!target.startsWith('/')) return !/^https?:\/\/[^/?#@]+([/?#]|$)/i.test(target) || !URL.canParse(target);
  if (!target.includes('%')) return false;
  try {
    decodeURI(target.split(/[?#]/, 1)[0] ?? '');
    return false;
  } catch {
    return true;
  }
}

/**
 * Makes malformed targets, unknown paths and methods errors of the catalogue: an onRequest hook refuses them before the
 * body is read. To be registered behind CORS, which answers preflights, and before all routes.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    // CORS has a route for all OPTIONS; those that reach this hook are no preflights.
    if (!request.is404 && request.method !== 'OPTIONS') {
      done();
      return;
    }
    if (request.url === unroutable) {
      const wellFormed = request.method === 'OPTIONS' ? ['*', unroutable] : [unroutable];
      done(new ApiError(wellFormed.includes(request.originalUrl) ? 'pathNotFound' : 'malformedTarget'));
      return;
    }
    const [url = '/'] = request.url.split('?', 1);
    const allowed = app.supportedMethods.filter((method) => {
      // Null, although its type does not say so, where there is no route.
      const route = app.findRoute({ method, url }) as Pick<FastifyRequest, 'params'> | null;
      // An empty parameter, as in /plants/, names nothing.
      return method !== 'OPTIONS' && route !== null && !Object.values(route.params as object).includes('');
    });
    done(
      allowed.length === 0
        ? new ApiError('pathNotFound')
        : new ApiError('methodNotAllowed', { headers: { allow: allowed.join(', ') } }),
    );
  });
}
