// The schema of a route, for plugins that read it: no request is validated by it.
import type { FastifySchema } from 'fastify';
import type { Operation } from '../../contract/operations.js';
import type { ParameterPlace } from '../../contract/parameters.js';
import type { Content } from '../../contract/responses.js';

/** Returns what the contract declares for an operation, in the form of Fastify. References lead into the contract. */
export function schemaOf(operation: Operation): FastifySchema {
  const { operationId, declared, parameters, body, declaredResponses } = operation;
  const { tags, summary, description, deprecated } = declared.operation as Readonly<Record<string, unknown>>;
  const at = (place: ParameterPlace) => {
    const all = parameters.filter((parameter) => parameter.in === place);
    const properties = Object.fromEntries(all.map(({ name, declared }) => [name, declared ?? {}]));
    const required = all.filter((parameter) => parameter.required).map(({ name }) => name);
    return all.length === 0 ? undefined : { type: 'object', properties, required };
  };
  const schema = {
    ...{ operationId, tags, summary, description, deprecated },
    params: at('path'),
    querystring: at('query'),
    headers: at('header'),
    body: body && contentOf(body.contents),
    response: Object.fromEntries(
      declaredResponses.map(({ key, node, contents }) => [
        key,
        { description: node.at('description').value, ...(contents.length > 0 && contentOf(contents)) },
      ]),
    ),
  };
  // Plugins may change it. Fastify asks whether a part is there, not whether it is undefined.
  return JSON.parse(JSON.stringify(schema)) as FastifySchema;
}

function contentOf(contents: readonly Content[]): object {
  const schemas = contents.map(({ name, node }) => {
    const { value } = node.at('schema');
    // Fastify refuses `false`, and an absent schema.
    return [name, { schema: value === false ? { not: {} } : (value ?? {}) }];
  });
  return { content: Object.fromEntries(schemas) as object };
}
