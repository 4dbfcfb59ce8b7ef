// What the documentation page consists of besides Swagger UI: its HTML, its script and its style.

/** Returns the page, whose other parts are in the folder `files`. */
export const page = (files: string, title: string) => `<!doctype html>
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
    <main id="swagger-ui"></main>
    <script src="${files}/swagger-ui-bundle.js"></script>
    <script type="module" src="${files}/page.js"></script>
  </body>
</html>
`;

/**
 * Returns the module that runs in the browser. Requests go to the page's origin, including a proxy's path prefix, and
 * have only what was filled in. The token is stored for the browser tab only.
 * @param basePath - The path of the contract's server; may be empty.
 */
export const scriptOf = (basePath: string) => `const base = new URL('..', document.baseURI).href;
const dark = matchMedia('(prefers-color-scheme: dark)');
const applyTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', applyTheme);
applyTheme();

const response = await fetch(base + 'openapi.json');
const contract = await response.json();

// Swagger UI fills in examples, and sends them: here, they are only shown.
const showExamples = (parameters = []) => {
  for (const parameter of parameters) {
    const { example = Object.values(parameter.examples ?? {})[0]?.value ?? parameter.schema?.example } = parameter;
    if (example === undefined) continue;
    const shown = 'Example: \`' + (typeof example === 'string' ? example : JSON.stringify(example)) + '\`';
    parameter.description = [parameter.description, shown].filter(Boolean).join('\\n\\n');
    delete parameter.example;
    delete parameter.examples;
    delete parameter.schema?.example;
  }
};
showExamples(Object.values(contract.components?.parameters ?? {}));
for (const item of Object.values(contract.paths)) {
  showExamples(item.parameters);
  for (const operation of Object.values(item)) showExamples(operation?.parameters);
}

const withoutLastResponse = () => ({
  statePlugins: {
    spec: {
      wrapActions: {
        // The first action of "Execute"; faults found here are shown instead of a response.
        validateParams: (validate, { specActions }) => ([path, method]) => {
          specActions.clearResponse(path, method);
          specActions.clearRequest(path, method);
          return validate([path, method]);
        },
      },
    },
  },
});

const accessible = () => ({
  wrapComponents: {
    // A link cannot be inside of the button that opens an operation.
    DeepLink: (Original, { React }) => ({ isShown, path, text }) => React.createElement('span', null, text),
    Input: (Original, { React }) => (props) =>
      React.createElement(
        Original,
        props.id?.startsWith('auth-') ? { ...props, type: 'password', autoComplete: 'off' } : props,
      ),
  },
});

const names = {
  'select.examples-select-element': 'Example',
  'select.content-type': 'Media type',
  'textarea.body-param__text': 'Request body',
  '.copy-to-clipboard button': 'Copy to the clipboard',
  'button.close-modal': 'Close',
  '.auth-container button.authorize': 'Authorize',
};
const nameElements = () => {
  for (const element of document.querySelectorAll('[data-param-name] :is(input, select, textarea)'))
    element.ariaLabel ??= element.closest('[data-param-name]').dataset.paramName;
  for (const [selector, name] of Object.entries(names)) {
    for (const element of document.querySelectorAll(selector))
      if (element.ariaLabel !== name) element.ariaLabel = name;
  }
};
new MutationObserver(nameElements).observe(document.body, { childList: true, subtree: true });

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
  plugins: [keepCredentials, withoutLastResponse, accessible],
  syntaxHighlight: { theme: 'tomorrow-night' },
  onComplete: () => {
    for (const [name, value] of JSON.parse(sessionStorage.getItem(stored) ?? '[]')) {
      ui.preauthorizeApiKey(name, value);
    }
  },
});
`;

/** Adds a compact header, a layout for narrow screens, and more contrast (WCAG 2.2, 1.4.3). */
export const style = `body { margin: 0; }
html.dark-mode { background: #1c2022; color-scheme: dark; }
.swagger-ui .info { margin: 20px 0 0; }
.swagger-ui .info summary { cursor: pointer; }
.swagger-ui .scheme-container { margin: 0; padding: 10px 0; box-shadow: none; }
.swagger-ui .scheme-container .servers-title, .swagger-ui .scheme-container .servers { display: none; }
.swagger-ui .info .title small { background: #5d6370; }
.swagger-ui .info .title small.version-stamp { background: #4a6a02; }
.swagger-ui a, .swagger-ui .info a, .swagger-ui .info a:visited { color: #2b6cb8; }
.swagger-ui .btn.authorize { color: #1c7a4e; border-color: #1c7a4e; }
.swagger-ui .btn.authorize svg { fill: #1c7a4e; }
.swagger-ui .btn.execute { background: #2b6cb8; border-color: #2b6cb8; }
.swagger-ui .btn.cancel { color: #c02020; border-color: #c02020; }
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: #1c7a4e; }
.swagger-ui .opblock.opblock-get .opblock-summary-method { background: #2b6cb8; }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: #c02020; }
.swagger-ui .opblock.opblock-put .opblock-summary-method { background: #95570a; }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: #12766a; }
.swagger-ui .opblock.opblock-head .opblock-summary-method { background: #7510d4; }
.swagger-ui .parameter__in { color: #595959; }
.swagger-ui .download-contents { background: #5d6370; }
.swagger-ui .renderedMarkdown code { color: #7510d4; }
.dark-mode .swagger-ui a, .dark-mode .swagger-ui .info a, .dark-mode .swagger-ui .info a:visited { color: #8ab8ec; }
html.dark-mode .swagger-ui .opblock .opblock-section-header .try-out__btn.cancel { color: #ff9a9a; border-color: #ff9a9a; }
.dark-mode .swagger-ui .parameter__in { color: #b0b0b0; }
.dark-mode .swagger-ui .renderedMarkdown li { color: #e4e6e6; }
.dark-mode .swagger-ui .renderedMarkdown code { color: #cfa3ff; }
.dark-mode .swagger-ui .response-col_description .header-col,
.dark-mode .swagger-ui .examples-select__section-label { color: #e4e6e6; }
@media (prefers-reduced-motion: reduce) {
  .swagger-ui * { animation: none !important; transition: none !important; }
}
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 8px; }
  .swagger-ui .info table, .swagger-ui .info pre { display: block; overflow-x: auto; }
  .swagger-ui .opblock .opblock-summary-description { display: none; }
  .swagger-ui .opblock-summary-path { max-width: none; }
  .swagger-ui .response-col_links { display: none; }
  .swagger-ui .opblock-body { overflow-x: auto; }
}
`;
