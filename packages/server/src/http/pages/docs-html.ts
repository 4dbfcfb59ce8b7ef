// Writes the documentation page of a contract: all that there is to read is in it; the page's script only sends requests.
import type { BodyContent } from '../../contract/body.js';
import type { Contract } from '../../contract/contract.js';
import type { Operation } from '../../contract/operations.js';
import { ContractReader, markdown, sent, text, yaml, type Fields } from './contract-reader.js';
import { markup, Markup, type MarkupPart } from './markup.js';
import { sampleOf, samplesIn, type Credential } from './samples.js';

/**
 * Writes the page.
 * @param files - The URL of the folder of its script and style.
 */
export function writePage(contract: Contract, files: string): string {
  return new PageWriter(contract).page(files).text;
}

class PageWriter {
  readonly #contract: Contract;
  readonly #reader: ContractReader;

  constructor(contract: Contract) {
    this.#contract = contract;
    this.#reader = new ContractReader(contract.bytes);
  }

  page(files: string): Markup {
    const { root } = this.#reader;
    const info = this.#reader.fields(root['info']);
    const schemas = this.#reader.entries(this.#component('schemas'));
    return markup`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${String(info['title'])}</title>
    <link rel="stylesheet" href="${files}/page.css" />
    <link rel="icon" href="data:," />
    <script type="module" src="${files}/page.js"></script>
  </head>
  <body>
    <header>
      <h1>${String(info['title'])} <small>${String(info['version'])}</small></h1>
      <button type="button" id="authorize" hidden>Authorize</button>
    </header>
    <main>
      <p id="unavailable">
        Requests cannot be sent from here, because the page's script has not run. Enable JavaScript and
        <a href="">load the page again</a>, or use the samples and the <a href="../openapi.yaml">contract</a>.
      </p>
      ${markdown(info['description'])}
      <p>The contract as <a href="../openapi.yaml">YAML</a> and <a href="../openapi.json">JSON</a></p>
      ${this.#sections()}
      ${
        schemas.length > 0 &&
        section(
          'Schemas',
          schemas.map(([name, one]) => schemaSection(name, one)),
        )
      }
    </main>
    ${this.#dialog()}
  </body>
</html>
`;
  }

  #component(kind: string): Fields {
    return this.#reader.fields(this.#reader.fields(this.#reader.root['components'])[kind]);
  }

  /** The operations by their first tags, in the order of the tags; those without one come last. */
  #sections(): Markup[] {
    const tags = new Map(this.#reader.list(this.#reader.root['tags']).map((tag) => [text(tag['name']), tag]));
    const groups = new Map<string | undefined, Markup[]>([...tags.keys()].map((name) => [name, []]));
    for (const operation of this.#contract.operations) {
      const item = this.#reader.fields(this.#reader.fields(this.#reader.root['paths'])[operation.path]);
      const declared = this.#reader.fields(item[operation.method.toLowerCase()]);
      const tag = Array.isArray(declared['tags']) ? text(declared['tags'][0]) : undefined;
      groups.set(tag, [...(groups.get(tag) ?? []), this.#operation(operation, item, declared)]);
    }
    return [...groups]
      .filter(([, operations]) => operations.length > 0)
      .sort(([one], [other]) => Number(one === undefined) - Number(other === undefined))
      .map(([name, operations]) =>
        section(name ?? 'Operations', [markdown(tags.get(name)?.['description']), ...operations]),
      );
  }

  #operation(operation: Operation, item: Fields, declared: Fields): Markup {
    const { method, path, operationId, body } = operation;
    const given = [item, declared].flatMap(({ parameters }) => this.#reader.list(parameters));
    // A parameter of the operation replaces the parameter of the path that has the same name and place.
    const parameters = [
      ...new Map(given.map((one) => [`${String(one['in'])} ${String(one['name'])}`, one])).values(),
    ];
    const requestBody = this.#reader.fields(declared['requestBody']);
    return markup`<details class="operation ${method.toLowerCase()}">
      <summary><h3><span class="method">${method}</span> <code>${path}</code> ${text(declared['summary'])}</h3></summary>
      <div class="content" id="${operationId}">
        ${declared['deprecated'] === true && markup`<p><strong>Deprecated.</strong></p>`}
        ${markdown(declared['description'])}
        ${table(
          'Parameter',
          parameters.map((one) => this.#parameter(one)),
        )}
        ${
          body &&
          markup`<h4>Request body${body.required ? ', required' : ''}</h4>
        ${markdown(requestBody['description'])} ${this.#contents(requestBody)}`
        }
        ${this.#responses(declared)}
        <h4>Samples</h4>
        ${this.#samples(operation, parameters)}
        ${this.#form(operation, parameters)}
      </div>
    </details>`;
  }

  #parameter(parameter: Fields): Row {
    const { name, in: place, required, description, schema } = parameter;
    return [
      markup`<code>${String(name)}</code><br />${String(place)}${required === true ? ', required' : ''}`,
      markup`${markdown(description)} ${this.#example(parameter)} ${schema !== undefined && details('Schema', yamlBlock(schema))} ${this.#contents(parameter)}`,
    ];
  }

  /** An example of a parameter or a header. */
  #example(given: Fields): Markup | undefined {
    const [example] = this.#reader.examples(given);
    return example && markup`<p>Example: <code>${sent(example.value)}</code></p>`;
  }

  /** The responses, and each of their headers once, with the statuses that have it. */
  #responses(declared: Fields): Markup {
    const responses = this.#reader.entries(declared['responses']);
    const headers = new Map<string, { header: Fields; statuses: string[] }>();
    for (const [status, response] of responses) {
      for (const [name, header] of this.#reader.entries(response['headers'])) {
        const known = headers.get(name) ?? { header, statuses: [] };
        headers.set(name, { header, statuses: [...known.statuses, status] });
      }
    }
    const rows = [...headers].map(([name, { header, statuses }]): Row => [
      markup`<code>${name}</code><br />${statuses.join(', ')}`,
      markup`${markdown(header['description'])} ${this.#example(header)}`,
    ]);
    return markup`${table(
      'Response',
      responses.map(([status, one]) => [
        markup`${status}`,
        markup`${markdown(one['description'])} ${this.#contents(one)}`,
      ]),
    )} ${rows.length > 0 && details('Headers of the responses', [table('Header', rows)])}`;
  }

  /** The bodies of a request or response, by their media types. */
  #contents(owner: Fields): Markup[] {
    return this.#reader
      .entries(owner['content'])
      .map(([type, content]) =>
        details(type, [
          ...this.#reader
            .examples(content)
            .map(({ summary, value }) => markup`<p>${summary}</p><pre>${sent(value)}</pre>`),
          content['schema'] !== undefined && markup`<p>Schema</p>${yamlBlock(content['schema'])}`,
        ]),
      );
  }

  #samples(operation: Operation, parameters: readonly Fields[]): Markup[] {
    const credential = operation.security.flat().map(({ scheme }) => this.#credential(scheme))[0];
    const values = parameters.map((one) => {
      const [example = { value: String(one['name']).toUpperCase() }] = this.#reader.examples(one);
      return {
        place: one['in'],
        name: String(one['name']),
        required: one['required'],
        text: sent(example.value),
      };
    });
    const [content] = operation.body?.contents ?? [];
    const body = content && { type: content.mediaType, text: this.#body(content) };
    return samplesIn(sampleOf(operation, values, credential, body)).map(([language, code]) =>
      details(language, [markup`<pre>${code}</pre>`]),
    );
  }

  /** Describes where a request carries the credentials of a scheme. */
  #credential(name: string): Credential {
    const scheme = this.#contract.securitySchemes[name]!;
    if (scheme.kind === 'apiKey') {
      if (scheme.in !== 'cookie') return { place: scheme.in, name: scheme.name, prefix: '' };
      return { place: 'header', name: 'Cookie', prefix: `${scheme.name}=` };
    }
    const word = scheme.kind === 'http' ? scheme.scheme : scheme.kind === 'basic' ? 'Basic' : 'Bearer';
    return { place: 'header', name: 'Authorization', prefix: `${word} ` };
  }

  /** The example with which the form begins. It is read from the document, because the normal form rounds large numbers. */
  #body({ node }: BodyContent): string {
    const given = node.path.reduce<unknown>((at, step) => this.#reader.fields(at)[step], this.#reader.root);
    const [example] = this.#reader.examples(this.#reader.fields(given));
    return example === undefined ? '' : sent(example.value);
  }

  /** The form that sends the operation's request. It is hidden until the page's script shows it. */
  #form(
    { method, path, basePaths, security, body, ...operation }: Operation,
    parameters: readonly Fields[],
  ): Markup {
    const credentials = security.map((all) =>
      all.map(({ scheme }) => ({ scheme, ...this.#credential(scheme) })),
    );
    const [content] = body?.contents ?? [];
    const inputs = parameters.map((parameter) => {
      const { name, in: place, schema, required } = parameter;
      const read = operation.parameters.find((one) => one.name === name && one.in === place);
      const isList = this.#reader.fields(schema)['type'] === 'array' && read?.isDelimited !== true;
      const hint = isList ? ' (separated by commas)' : '';
      return markup`<label><code>${String(name)}</code>${hint} <input name="${String(name)}" autocomplete="off"
        data-place="${String(place)}" data-form="${isList ? 'list' : 'value'}" ${required === true && 'required'} /></label>`;
    });
    return markup`<form hidden data-method="${method}" data-path="${(basePaths[0] ?? '') + path}"
      data-security="${JSON.stringify(credentials)}">
      <h4>Try it</h4>
      ${inputs} ${content && this.#editor(content, body?.required === true && 'required')}
      <button>Send</button>
      <div role="status"></div>
    </form>`;
  }

  #editor(content: BodyContent, required: MarkupPart): MarkupPart {
    const { format, name, fields, mediaType } = content;
    if (format === 'multipart')
      return fields.map(
        ({ name, kind }) => markup`<label><code>${name}</code>
          <input name="${name}" type="${kind === 'file' ? 'file' : 'text'}" data-place="part" /></label>`,
      );
    const attributes = markup`data-place="body" data-type="${mediaType}" ${required}`;
    return markup`<label>Body, <code>${name}</code>
      ${
        format === 'bytes'
          ? markup`<input type="file" ${attributes} />`
          : markup`<textarea rows="5" spellcheck="false" ${attributes}>${this.#body(content)}</textarea>`
      }</label>`;
  }

  #dialog(): Markup {
    const described = this.#component('securitySchemes');
    const inputs = Object.entries(this.#contract.securitySchemes)
      // Browsers send cookies by themselves.
      .filter(([, scheme]) => scheme.kind !== 'apiKey' || scheme.in !== 'cookie')
      .map(
        ([name, { kind }]) => markup`<label>${name}${kind === 'basic' ? ' (user:password)' : ''}
          <input type="password" name="${name}" autocomplete="off" /></label>
          ${markdown(this.#reader.fields(described[name])['description'])}`,
      );
    return markup`<dialog aria-labelledby="authorize-title"><form id="credentials">
      <h2 id="authorize-title">Authorize</h2>
      ${inputs}
      <p>Kept until you close this tab, and sent to this server alone.</p>
      <button>Save</button>
      <button type="button" id="forget">Forget</button>
      <button type="button" id="cancel">Cancel</button>
    </form></dialog>`;
  }
}

function section(title: string, content: MarkupPart): Markup {
  return markup`<section><h2>${title}</h2>${content}</section>`;
}

function schemaSection(name: string, { description, ...schema }: Fields): Markup {
  return markup`<details><summary><h3>${name}</h3></summary>
    <div class="content" id="schema-${name}">${markdown(description)} ${yamlBlock(schema)}</div></details>`;
}

function details(summary: string, content: MarkupPart): Markup {
  return markup`<details><summary>${summary}</summary>${content}</details>`;
}

function yamlBlock(value: unknown): Markup {
  return markup`<pre>${yaml(value)}</pre>`;
}

/** A row of a table: its subject, and the text about it. */
type Row = readonly [head: Markup, content: Markup];

function table(of: string, rows: readonly Row[]): MarkupPart {
  return (
    rows.length > 0 &&
    markup`<table><thead><tr><th scope="col">${of}</th><th scope="col">Description</th></tr></thead>
      <tbody>${rows.map(([head, content]) => markup`<tr><th scope="row">${head}</th><td>${content}</td></tr>`)}
      </tbody></table>`
  );
}
