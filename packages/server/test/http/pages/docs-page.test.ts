// In a real browser, the documentation page loads nothing from other origins, can be used on any screen and with the
// keyboard alone, and deletes the right plant.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { noBrowser, startBrowser } from '../../support/browser.js';
import { contractOf } from '../../support/contract-check.js';
import { engines } from '../../support/engines.js';
import { createGarden, gardenDocument, loadEdited, orchard } from '../../support/garden/garden.js';
import { startListening, startService } from '../../support/service.js';
import { skipFor } from '../../support/skip.js';

/** What has a validator, and the headers of it that a 304 has, too. */
const published = ['/docs/', '/openapi.yaml', '/openapi.json'];
const kept = ['etag', 'cache-control', 'content-security-policy', 'x-content-type-options'];

interface AxeResults {
  violations: { id: string; nodes: { html: string }[] }[];
}

t.test('the page is served completely and has no links to other origins', async (t) => {
  const { app } = await startService(t, engines[0]!);
  for (const url of ['/', '/docs']) {
    const { statusCode, headers } = await app.inject(url);
    t.strictSame([statusCode, headers.location, headers['cache-control']], [302, 'docs/', 'no-cache'], url);
  }
  const page = await app.inject('/docs/');
  t.equal(page.statusCode, 200);
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  const parts = [...page.payload.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
  for (const part of parts) t.notMatch(part, /^\/|^(?!data:)[^?#]*:/, 'relative');
  const files = parts.filter((part) => /\.(?:js|css)$/.test(part));
  t.equal(files.length, 2);
  for (const part of files) {
    const { statusCode, headers } = await app.inject(`/docs/${part}`);
    t.equal(statusCode, 200, part);
    t.equal(headers['x-content-type-options'], 'nosniff');
    t.equal(headers['cache-control'], 'public, max-age=31536000, immutable', 'kept for good under its name');
    t.notMatch(headers['content-security-policy'], /unsafe|https?:|upgrade/);
  }
});

t.test('caches keep the page and the contract, and ask whether they have changed', async (t) => {
  const { app } = await startService(t, engines[0]!);
  const tags = new Set<unknown>();
  for (const url of published) {
    const ask = (tag?: string, method: 'GET' | 'HEAD' = 'GET') =>
      app.inject({ url, method, headers: tag === undefined ? {} : { 'if-none-match': tag } });
    const { headers, statusCode } = await ask();
    const tag = String(headers.etag);
    t.equal(statusCode, 200);
    for (const name of [...kept, 'content-type', 'content-length'])
      t.equal((await ask(undefined, 'HEAD')).headers[name], headers[name], `HEAD ${url} ${name}`);
    t.match(tag, /^"[\w-]+"$/, 'strong');
    t.equal(headers['cache-control'], 'no-cache', url);
    tags.add(tag);
    for (const current of [tag, `"other", W/${tag}`, '*']) {
      for (const method of ['GET', 'HEAD'] as const) {
        const { headers: unchanged, statusCode, rawPayload } = await ask(current, method);
        t.strictSame([statusCode, rawPayload.length], [304, 0], `${url} ${current}`);
        // A cache replaces the headers that it keeps by these.
        for (const name of kept) t.equal(unchanged[name], headers[name], `${url} ${name}`);
        for (const name of ['content-type', 'content-length']) t.equal(unchanged[name], undefined, name);
      }
    }
    for (const other of ['"other"', tag.slice(1)]) t.equal((await ask(other)).statusCode, 200, other);
  }
  t.equal(tags.size, published.length);
});

t.test('what a contract says is shown as text, and cannot become a part of the page', async (t) => {
  const garden = createGarden();
  const description = 'See <script>alert(1)</script> <b onclick=x>bold</b> [link](javascript:x)';
  const contract = loadEdited(gardenDocument, {
    '/info/title': '"<i>&',
    '/paths/~1about/get/description': description,
  });
  const { app } = await startService(t, engines[0]!, { ...garden.options, ...garden, contract });
  const { payload } = await app.inject('/docs/');
  t.match(payload, '<title>&quot;&lt;i&gt;&amp;</title>');
  t.match(payload, '&lt;script&gt;alert(1)&lt;/script&gt; &lt;b onclick=x&gt;bold&lt;/b&gt; link');
  t.notMatch(payload, /<(?:b|i)[ >]|<script>|href="javascript/);
});

t.test('integers of any size are exact in examples', async (t) => {
  const text = (await readFile(new URL('../../../../../openapi.yaml', import.meta.url), 'utf8')).replaceAll(
    'id: 1,',
    'id: 9007199254740993,',
  );
  const { app } = await startService(t, engines[0]!, { contract: contractOf(text) });
  const { payload } = await app.inject('/docs/');
  t.match(payload, '&quot;id&quot;: 9007199254740993');
  t.notMatch(payload, '9007199254740992');
});

/** A server and a browser, and how a test opens the page. */
async function startPage(t: Test, options?: Parameters<typeof startListening>[1]) {
  const service = await startListening(t, options);
  const browser = await startBrowser(t);
  const origin = `http://plants.example:${service.port}`;
  const open = async (pageOptions: Parameters<typeof browser.newPage>[0] = {}) => {
    const page = await browser.newPage(pageOptions);
    await page.goto(`${origin}/docs/`);
    return page;
  };
  return { ...service, browser, origin, open };
}

/** Enters a token, and closes the dialog. */
async function enterToken(page: Page, token: string) {
  await page.getByRole('button', { name: 'Authorize' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill(token);
  await page.getByRole('button', { name: 'Save' }).click();
}

t.test(
  'the page fits wide and narrow screens in both themes, and is accessible whatever is open',
  skipFor(noBrowser),
  async (t) => {
    const { token, open } = await startPage(t);
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [390, 1280]) {
        // The page's own policy would not let the check run.
        const page = await open({ viewport: { width, height: 800 }, colorScheme, bypassCSP: true });
        await page.addScriptTag({ path: fileURLToPath(import.meta.resolve('axe-core/axe.min.js')) });
        const check = async (stage: string) => {
          const { violations } = await page.evaluate<AxeResults>('axe.run({ resultTypes: ["violations"] })');
          const found = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
          t.strictSame(found, [], `${colorScheme}, ${width}: ${stage}`);
          t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, stage);
        };
        for (const operation of (await page.locator('.operation > summary').all()).slice(0, 2))
          await operation.click();
        const screens = await page.evaluate<number>('document.documentElement.scrollHeight / innerHeight');
        t.ok(screens < 9, `two opened operations are ${screens} screens`);
        await page.getByRole('button', { name: 'Authorize' }).click();
        await check('authorizing');
        await page.keyboard.press('Escape');
        await enterToken(page, token);
        await page.getByRole('button', { name: 'Send' }).first().click();
        await page.locator('form p', { hasText: '200' }).waitFor();
        await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
        await check('all opened, with a response');
        await page.close();
      }
    }
  },
);

t.test(
  'without its script, the page shows everything, and says what is missing',
  skipFor(noBrowser),
  async (t) => {
    const { browser, origin } = await startPage(t);
    const offline = await browser.newPage({ javaScriptEnabled: false });
    const broken = await browser.newPage();
    await broken.route('**/page.js', (route) => route.abort());
    for (const page of [offline, broken]) {
      await page.goto(`${origin}/docs/`);
      await page.locator('#unavailable').waitFor();
      t.equal(
        await page.getByRole('link', { name: 'contract', exact: true }).getAttribute('href'),
        '../openapi.yaml',
      );
      await page.getByRole('heading', { name: 'Create a plant' }).click();
      await page.getByRole('cell', { name: '40011', exact: true }).waitFor();
      t.equal(await page.locator('button:visible').count(), 0, 'no button without a function');
    }
    await broken.unrouteAll();
    await broken.getByRole('link', { name: 'load the page again' }).click();
    await broken.getByRole('button', { name: 'Authorize' }).waitFor();
    t.equal(await broken.locator('#unavailable').count(), 0);
  },
);

t.test(
  'each operation has the codes that it can return, and samples for this server',
  skipFor(noBrowser),
  async (t) => {
    const { open, origin } = await startPage(t);
    const page = await open();
    const shown = page.locator('.operation', { hasText: 'Create a plant' });
    await shown.locator('summary').first().click();
    for (const code of ['40001 to 40005', '40010', '40011', '50000, 50302'])
      t.ok(await shown.getByRole('cell', { name: code, exact: true }).isVisible(), code);
    await shown.getByText('curl', { exact: true }).click();
    const code = await shown.locator('details[open] pre').last().innerText();
    for (const part of [
      `curl -i -X POST '${origin}/plants'`,
      '{ "id": 1, "name": "Monstera deliciosa"',
      'TOKEN',
    ])
      t.match(code, part);
  },
);

t.test('with the keyboard alone, a person authorizes and lists', skipFor(noBrowser), async (t) => {
  const { token, open, fill, origin } = await startPage(t);
  await fill(1, () => 'Monstera');
  const page = await open();
  const focused = () =>
    page.evaluate<string>(
      'document.activeElement.matches("body *") ? document.activeElement.textContent.trim() : ""',
    );
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  /** Moves on to what has a text. */
  const reach = async (text: string) => {
    for (let i = 0; i < 30 && !(await focused()).includes(text); i++) await press('Tab');
    t.match(await focused(), text, 'the keyboard reaches it');
  };
  const dialog = page.getByRole('dialog', { name: 'Authorize' });
  await reach('Authorize');
  await press('Enter');
  await dialog.waitFor();
  const inside =
    'document.activeElement === document.body || document.activeElement.closest("dialog") !== null';
  for (let i = 0; i < 8; i++) {
    t.ok(await page.evaluate(inside), 'the focus stays in the dialog, or goes to the browser');
    await press('Tab');
  }
  await press('Escape');
  t.equal(await dialog.isVisible(), false);
  t.equal(await focused(), 'Authorize', 'the focus is given back');
  await press('Enter');
  t.equal(await page.evaluate('document.activeElement.type'), 'password', 'nobody can read the token');
  await page.keyboard.type(` ${token} `);
  await press('Enter');
  t.equal(await focused(), 'Authorized');
  await page.reload();
  await reach('Authorized');
  await reach('List plants');
  await press('Enter');
  await reach('Send');
  const sent = page.waitForResponse((response) => response.url() === `${origin}/plants`);
  await press('Enter');
  t.equal((await sent).status(), 200, 'nothing is sent that was not filled in');
  await page.getByText('[{"name":"Monstera"}]').waitFor();

  await page.getByRole('button', { name: 'Authorized' }).click();
  await page.getByRole('button', { name: 'Forget' }).click();
  await page.reload();
  await page.getByRole('button', { name: 'Authorize', exact: true }).waitFor();
});

t.test(
  'the page sends requests for other contracts, below a base path, as they are filled in',
  skipFor(noBrowser),
  async (t) => {
    const startOther = async (options: Parameters<typeof startPage>[1]) => {
      const { open, origin } = await startPage(t, options);
      const page = await open();
      page.on('pageerror', ({ message }) => t.fail(message));
      const send = async (operationId: string, values: Record<string, string> = {}) => {
        const operation = page.locator(`.operation:has(#${operationId})`);
        await operation.locator('summary').first().click();
        for (const [name, value] of Object.entries(values))
          await operation.locator(`[name="${name}"]`).fill(value);
        const sent = page.waitForResponse((response) => /fetch/.test(response.request().resourceType()));
        await operation.getByRole('button', { name: 'Send' }).click();
        return (await sent).request();
      };
      return { send, origin };
    };
    const ofOrchard = await startOther(orchard);
    t.equal((await ofOrchard.send('exportTrees')).url(), `${ofOrchard.origin}/v1/orchard/trees`);
    const garden = createGarden();
    const { send } = await startOther({ ...garden.options, ...garden });
    const sizes = '1,9007199254740993';
    const list = await send('listSeeds', { 'X-Season': '1', colors: 'red,blue', sizes });
    t.match(list.url(), /\?colors=red&colors=blue&sizes=1,9007199254740993$/);
    const photos = await send('uploadPhotos', { rows: '[1]' });
    t.match(photos.headers()['content-type'], 'multipart/form-data; boundary=');
  },
);

t.test('a person authorizes, creates, lists and deletes by clicking', skipFor(noBrowser), async (t) => {
  const { call, token, browser, origin } = await startPage(t);
  const page = await browser.newPage();
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  await page.goto(`${origin}/`);
  t.equal(page.url(), `${origin}/docs/`);
  await enterToken(page, token);

  const operations = new Set<string>();
  /** Fills in and sends, and returns the request, the status and what the page then shows. */
  const send = async (operationId: string, path: string, field: string, value: string) => {
    const operation = page.locator(`.operation:has(#${operationId})`);
    if (!operations.has(operationId)) await operation.locator('summary').first().click();
    operations.add(operationId);
    await operation.locator(field).fill(value);
    const received = page.waitForResponse(`${origin}${path}`);
    await operation.getByRole('button', { name: 'Send' }).click();
    const response = await received;
    await operation.locator('form p', { hasText: String(response.status()) }).waitFor();
    return {
      body: response.request().postData(),
      status: response.status(),
      text: await operation.locator('form').innerText(),
    };
  };
  for (const id of ['9007199254740992', '9007199254740993']) {
    const body = `{"id": ${id}, "name": "plant ${id}"}`;
    t.match(await send('createPlant', '/plants', 'textarea', body), { status: 200, body });
  }
  const listed = await send('listPlants', '/plants?limit=100', '[name=limit]', '100');
  t.match(listed.text, /plant 9007199254740992[^]+plant 9007199254740993/);
  const id = '9007199254740993';
  t.equal((await send('deletePlant', `/plants/${id}`, '[name=id]', id)).status, 204);
  t.strictSame((await call('GET', '/plants', { token })).json, [{ name: 'plant 9007199254740992' }]);
  t.strictSame(complaints, [], 'the policy holds nothing back that the page needs');
  t.strictSame(
    requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:')),
    [],
    'nothing is requested from other origins',
  );

  // A response with such a number is shown as it arrived.
  await page.route(`${origin}/plants?limit=1`, (route) =>
    route.fulfill({ json: undefined, body: '{"id":9007199254740993}', contentType: 'application/json' }),
  );
  t.match((await send('listPlants', '/plants?limit=1', '[name=limit]', '1')).text, '{"id":9007199254740993}');
});
