// Runs Swagger UI in the browser. Requests go to the page's origin, including a proxy's path prefix, and have only what was
// filled in. The token is stored for the browser tab only.
const base = new URL('..', document.baseURI).href;
const { basePath } = document.getElementById('swagger-ui').dataset;
const dark = matchMedia('(prefers-color-scheme: dark)');
const applyTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', applyTheme);
applyTheme();

const response = await fetch(base + 'openapi.json');
const contract = await response.json();

// Swagger UI fills in examples, and sends them: here, they are only shown.
const showExamples = (parameters = []) => {
  for (const parameter of parameters) {
    const { example = Object.values(parameter.examples ?? {})[0]?.value ?? parameter.schema?.example } =
      parameter;
    if (example === undefined) continue;
    const shown = 'Example: `' + (typeof example === 'string' ? example : JSON.stringify(example)) + '`';
    parameter.description = [parameter.description, shown].filter(Boolean).join('\n\n');
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
        validateParams:
          (validate, { specActions }) =>
          ([path, method]) => {
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
    DeepLink:
      (Original, { React }) =>
      ({ text }) =>
        React.createElement('span', null, text),
    Input:
      (Original, { React }) =>
      (props) =>
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
  spec: { ...contract, servers: [{ url: base + basePath.slice(1) }] },
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
