// Sends requests from the documentation page: to the origin of the page, below a proxy's path prefix if there is one, with
// what was filled in and nothing else. Credentials are kept for the browser tab only. Bodies are texts, never parsed, so
// every id is exact.
const base = new URL('..', document.baseURI).href.slice(0, -1);
const stored = 'docs-credentials';

/** Returns the elements that match a selector. @param {string} selector */
const all = (selector) => /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);

/**
 * Returns an element with the id.
 * @template {HTMLElement} Kind
 * @param {new () => Kind} kind
 * @param {string} id
 */
function byId(kind, id) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new TypeError(`there is no ${kind.name} ${id}`);
  return element;
}

/** @returns {Record<string, string>} */
const readCredentials = () => JSON.parse(sessionStorage.getItem(stored) ?? '{}');

/**
 * Makes the request of a form.
 * @param {HTMLFormElement} form
 */
function requestOf(form) {
  let { method = '', path = '', security = '[]' } = form.dataset;
  /** @type {string[]} */
  const query = [];
  const headers = new Headers();
  /** @type {BodyInit | null} */
  let body = null;
  for (const input of form.querySelectorAll('input, textarea')) {
    if (!(input instanceof HTMLInputElement || input instanceof HTMLTextAreaElement)) continue;
    const { name, value } = input;
    if (value === '') continue;
    const content = (input instanceof HTMLInputElement && input.files?.[0]) || value;
    const { place, form: kind, type = '' } = input.dataset;
    if (place === 'path') path = path.replace(`{${name}}`, () => encode(value));
    else if (place === 'header') headers.set(name, value);
    else if (place === 'query') {
      for (const one of kind === 'list' ? value.split(',') : [value])
        query.push(`${encode(name)}=${encode(one)}`);
    } else if (place === 'part') {
      if (!(body instanceof FormData)) body = new FormData();
      body.append(name, content);
    } else {
      headers.set('content-type', type);
      body = content;
    }
  }
  authorize(JSON.parse(security), headers, query);
  const url = base + path + (query.length > 0 ? `?${query.join('&')}` : '');
  return new Request(url, { method, headers, body, cache: 'no-store' });
}

/** Encodes a value for a URL; commas separate items. @param {string} text */
const encode = (text) => encodeURIComponent(text).replaceAll('%2C', ',');

/**
 * Adds the credentials of the first requirement that they satisfy.
 * @param {{ scheme: string, place: string, name: string, prefix: string }[][]} security
 * @param {Headers} headers
 * @param {string[]} query
 */
function authorize(security, headers, query) {
  const credentials = readCredentials();
  const chosen = security.find((requirement) => requirement.every(({ scheme }) => credentials[scheme]));
  for (const { scheme, place, name, prefix } of chosen ?? []) {
    const secret = credentials[scheme] ?? '';
    if (place === 'query') query.push(`${encode(name)}=${encode(secret)}`);
    else headers.set(name, prefix + (prefix === 'Basic ' ? base64(secret) : secret));
  }
}

/** @param {string} text */
const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/**
 * Sends the request of a form, and shows the response.
 * @param {HTMLFormElement} form
 * @param {HTMLElement} output
 */
async function send(form, output) {
  output.textContent = 'Waiting for the response…';
  try {
    const response = await fetch(requestOf(form));
    const body = await response.blob();
    const head = [...response.headers].map(([name, value]) => `${name}: ${value}`);
    output.replaceChildren(
      element('p', `${response.status} ${response.statusText}`),
      element('pre', head.join('\n')),
      /^$|json|text|xml|urlencoded/.test(body.type) ? element('pre', await body.text()) : download(body),
    );
  } catch (error) {
    output.textContent = `There is no response: ${error}`;
  }
}

/** @param {string} name @param {string} text */
function element(name, text) {
  return Object.assign(document.createElement(name), { textContent: text });
}

/** @param {Blob} body */
function download(body) {
  const link = document.createElement('a');
  return Object.assign(link, {
    href: URL.createObjectURL(body),
    download: '',
    textContent: `Download (${body.size} bytes, ${body.type})`,
  });
}

for (const one of all('.base')) one.textContent = base;
for (const form of document.querySelectorAll('form')) {
  const output = /** @type {HTMLElement | null} */ (form.querySelector('[role=status]'));
  if (output === null) continue;
  form.hidden = false;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void send(form, output);
  });
}

const dialog = all('dialog')[0];
const opener = byId(HTMLButtonElement, 'authorize');
const credentials = byId(HTMLFormElement, 'credentials');
const showState = () => {
  opener.textContent = Object.values(readCredentials()).some(Boolean) ? 'Authorized' : 'Authorize';
};
if (dialog instanceof HTMLDialogElement) {
  opener.addEventListener('click', () => {
    const known = readCredentials();
    for (const input of credentials.querySelectorAll('input')) input.value = known[input.name] ?? '';
    dialog.showModal();
  });
  credentials.addEventListener('submit', (event) => {
    event.preventDefault();
    const inputs = [...credentials.querySelectorAll('input')];
    const entries = inputs.map(({ name, value }) => [name, value.trim()]);
    sessionStorage.setItem(stored, JSON.stringify(Object.fromEntries(entries)));
    showState();
    dialog.close();
  });
  byId(HTMLButtonElement, 'forget').addEventListener('click', () => {
    sessionStorage.removeItem(stored);
    showState();
    dialog.close();
  });
  byId(HTMLButtonElement, 'cancel').addEventListener('click', () => dialog.close());
  showState();
  opener.hidden = false;
}
byId(HTMLParagraphElement, 'unavailable').remove();
