// In a real browser, the documentation page loads nothing from other origins, can be used on any screen, and deletes the
// right plant.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { noBrowser, startBrowser } from '../../support/browser.js';
import { engines } from '../../support/engines.js';
import { createGarden, orchard } from '../../support/garden/garden.js';
import { startListening, startService } from '../../support/service.js';
import { skipFor } from '../../support/skip.js';

/** What has a validator, and the headers of it that a 304 has, too. */
const published = ['/docs/', '/openapi.yaml', '/openapi.json'];
const kept = ['etag', 'cache-control', 'vary', 'content-security-policy', 'x-content-type-options'];

interface AxeResults {
  violations: { id: string; impact: string; nodes: { html: string }[] }[];
}

t.test('the page is served completely and has no links to other origins', async (t) => {
  const { app } = await startService(t, engines[0]!);
  for (const url of ['/', '/docs']) {
    const { statusCode, headers } = await app.inject(url);
    t.strictSame([statusCode, headers.location], [302, 'docs/'], 'relative, for a service under a path');
  }
  const page = await app.inject('/docs/');
  t.equal(page.statusCode, 200);
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  const parts = [...page.payload.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
  t.ok(parts.length >= 3);
  for (const part of parts) {
    t.notMatch(part, /^\/|:/, 'relative');
    const { statusCode, headers } = await app.inject(`/docs/${part}`);
    t.equal(statusCode, 200, part);
    t.equal(headers['x-content-type-options'], 'nosniff');
    t.equal(headers['cache-control'], 'public, max-age=31536000, immutable', 'kept for good under its name');
    const coded = await app.inject({ url: `/docs/${part}`, headers: { 'accept-encoding': 'gzip' } });
    t.equal(coded.headers['content-encoding'], part.endsWith('.png') ? undefined : 'gzip');
    t.notMatch(headers['content-security-policy'], /unsafe|https?:|upgrade/);
  }
});

t.test('HEAD returns the headers of every page', async (t) => {
  const { port } = await startListening(t);
  const ask = async (method: string, url: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${url}`, { method, redirect: 'manual' });
    const header = (name: string) => response.headers.get(name);
    const headers = ['location', 'content-type', 'content-encoding', ...kept].map(header);
    // A redirect has no content.
    return { status: response.status, headers, length: response.ok ? header('content-length') : '' };
  };
  for (const url of ['/', '/docs', ...published]) {
    t.strictSame(await ask('HEAD', url), await ask('GET', url), url);
  }
});

t.test('caches keep the page and the contract, and ask whether they have changed', async (t) => {
  for (const plugins of [{}, { compression: true, securityHeaders: true }]) {
    const { app } = await startService(t, engines[0]!, { plugins });
    const tags = new Set<unknown>();
    for (const url of published) {
      for (const coding of ['identity', 'gzip']) {
        const what = `${url} ${coding}`;
        const ask = (known?: string, method: 'GET' | 'HEAD' = 'GET') =>
          app.inject({
            url,
            method,
            headers: { 'accept-encoding': coding, ...(known !== undefined && { 'if-none-match': known }) },
          });
        const { headers, statusCode } = await ask();
        const tag = String(headers.etag);
        t.equal(statusCode, 200);
        t.equal(headers['content-encoding'], coding === 'gzip' ? coding : undefined, what);
        t.match(tag, /^"[\w-]+"$/, 'strong, so it is another one for each coding');
        t.match(headers, { 'cache-control': 'no-cache', vary: 'accept-encoding' }, what);
        tags.add(tag);
        for (const known of [tag, `"other", W/${tag}`, '*']) {
          for (const method of ['GET', 'HEAD'] as const) {
            const { headers: unchanged, statusCode, rawPayload } = await ask(known, method);
            t.strictSame([statusCode, rawPayload.length], [304, 0], `${what} ${known}`);
            // A cache replaces the headers that it keeps by these.
            for (const name of kept) t.equal(unchanged[name], headers[name], `${what} ${name}`);
            for (const name of ['content-type', 'content-encoding', 'content-length'])
              t.equal(unchanged[name], undefined, name);
          }
        }
        for (const known of ['"other"', tag.slice(1)]) t.equal((await ask(known)).statusCode, 200, known);
      }
    }
    t.equal(tags.size, 2 * published.length);
  }
});

t.test('what depends on the coding and on the origin says both', async (t) => {
  const corsOrigins = ['https://plants.example'];
  for (const compression of [false, true]) {
    const { app } = await startService(t, engines[0]!, { plugins: { corsOrigins, compression } });
    for (const url of published) {
      const { headers } = await app.inject(url);
      t.match(headers.vary, /^(Origin, accept-encoding|accept-encoding, Origin)$/, url);
    }
  }
});

t.test(
  'the page fits wide and narrow screens, follows the theme, and keeps the token',
  skipFor(noBrowser),
  async (t) => {
    const { token, port } = await startListening(t);
    const browser = await startBrowser(t);
    for (const { colorScheme, ...viewport } of [
      { width: 1280, height: 900, colorScheme: 'light' },
      { width: 390, height: 800, colorScheme: 'dark' },
    ] as const) {
      const page = await browser.newPage({ viewport, colorScheme });
      await page.goto(`http://plants.example:${port}/docs/`);
      for (const part of ['button.authorize', '.opblock-summary']) {
        const { y = Infinity, height = 0 } = (await page.locator(part).first().boundingBox()) ?? {};
        t.ok(y + height <= viewport.height, `${viewport.width}: ${part} is in sight`);
      }
      await page.click('.opblock-summary-control >> nth=1');
      await page.locator('.responses-table').first().waitFor();
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), viewport.width);
      const dark = await page.evaluate("document.documentElement.classList.contains('dark-mode')");
      t.equal(dark, colorScheme === 'dark', colorScheme);

      await page.click('button.authorize >> nth=0');
      await page.fill('.auth-container input', token);
      await page.click('.auth-container button.authorize');
      await page.reload();
      await page.locator('button.authorize.locked').waitFor();
      await page.click('button.authorize.locked');
      await page.click('.auth-container button:has-text("Logout")');
      await page.reload();
      await page.locator('button.authorize.unlocked').waitFor();
      await page.close();
    }
  },
);

t.test(
  'the page shows other contracts, and sends requests below a base path',
  skipFor(noBrowser),
  async (t) => {
    const browser = await startBrowser(t);
    const garden = createGarden();
    for (const options of [{ ...garden.options, ...garden }, orchard]) {
      const { port } = await startListening(t, options);
      const page = await browser.newPage();
      const complaints: string[] = [];
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`));
      await page.goto(`http://plants.example:${port}/docs/`);
      const { operations } = options.contract;
      const [{ basePaths, path, operationId }] = operations as [(typeof operations)[0]];
      const operation = page.locator(`[id$="-${operationId}"]`);
      await operation.locator('.opblock-summary-control').click();
      t.ok((await page.locator('.opblock').count()) >= operations.length);
      await operation.locator('.try-out__btn').click();
      const url = `http://plants.example:${port}${basePaths[0]}${path}`;
      const sent = page.waitForResponse((response) => response.url() === url);
      await operation.locator('button.execute').click();
      t.equal((await sent).status(), 200);
      t.strictSame(complaints, []);
    }
  },
);

t.test('the page is accessible in both themes, whatever is open', skipFor(noBrowser), async (t) => {
  const { token, port } = await startListening(t);
  const browser = await startBrowser(t);
  for (const colorScheme of ['light', 'dark'] as const) {
    // The page's own policy would not let the check run.
    const page = await browser.newPage({ colorScheme, bypassCSP: true, reducedMotion: 'reduce' });
    await page.goto(`http://plants.example:${port}/docs/`);
    await page.locator('.opblock').first().waitFor();
    await page.addScriptTag({ path: fileURLToPath(import.meta.resolve('axe-core/axe.min.js')) });
    const check = async (stage: string) => {
      const { violations } = await page.evaluate<AxeResults>('axe.run({ resultTypes: ["violations"] })');
      const severe = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      t.strictSame(
        severe.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]),
        [],
        `${colorScheme}: ${stage}`,
      );
    };
    const clickAll = async (selector: string) => {
      for (const element of await page.locator(selector).all()) await element.click();
    };
    await check('closed');
    await clickAll('.opblock-summary-control');
    await page.locator('.responses-table').nth(2).waitFor();
    await clickAll('.try-out__btn');
    await page.click('button.authorize >> nth=0');
    await check('authorizing');
    t.equal(
      await page.getAttribute('.auth-container input', 'type'),
      'password',
      'nobody can read the token',
    );
    await page.fill('.auth-container input', token);
    await page.click('.auth-container button.authorize');
    await page.click('.auth-container button.btn-done');
    await clickAll('button.execute');
    await page.locator('.live-responses-table').nth(1).waitFor();
    await check('with responses');
    await page.close();
  }
});

t.test('a person authorizes, creates, lists and deletes by clicking', skipFor(noBrowser), async (t) => {
  const { call, token, port } = await startListening(t);
  const browser = await startBrowser(t);
  const page = await browser.newPage({ viewport: { width: 1200, height: 1000 } });
  const origin = `http://plants.example:${port}`;
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
  await page.click('button.authorize');
  await page.fill('.auth-container input', token);
  await page.click('.auth-container button.authorize');
  await page.click('.auth-container button.btn-done');

  const tryOut = async (operationId: string) => {
    const operation = page.locator(`#operations-plants-${operationId}`);
    await operation.locator('.opblock-summary-control').click();
    await operation.locator('.try-out__btn').click();
    return operation;
  };
  /** Clicks "Execute", and returns the status and text that the page then shows. */
  const execute = async (operation: ReturnType<typeof page.locator>, path: string) => {
    const received = page.waitForResponse((response) => response.url() === `${origin}${path}`);
    await operation.locator('button.execute').click();
    const status = (await received).status();
    const shown = operation.locator('.live-responses-table .response');
    await shown.locator(`td.response-col_status:has-text("${status}")`).waitFor();
    return { status, text: await shown.innerText() };
  };

  const createPlant = await tryOut('createPlant');
  for (const id of ['9007199254740992', '9007199254740993']) {
    await createPlant.locator('textarea.body-param__text').fill(`{"id": ${id}, "name": "plant ${id}"}`);
    const created = await execute(createPlant, '/plants');
    t.equal(created.status, 200, 'two ids that a rounding page would take for one');
    t.match(created.text, `plant ${id}`);
  }
  await createPlant.locator('.opblock-summary-control').click();

  const listPlants = await tryOut('listPlants');
  const limit = listPlants.locator('input[placeholder="limit"]');
  const whole = page.waitForRequest(`${origin}/plants`);
  await execute(listPlants, '/plants');
  t.equal((await whole).headers()['if-none-match'], undefined, 'nothing is sent that was not filled in');
  await limit.fill('none');
  await listPlants.locator('button.execute').click();
  await listPlants.locator('input.invalid').waitFor();
  t.equal(
    await listPlants.locator('.live-responses-table').count(),
    0,
    'an error is not shown beside the last response',
  );
  await limit.fill('100');
  const listed = await execute(listPlants, '/plants?limit=100');
  t.match(listed.text, /plant 9007199254740992[^]+plant 9007199254740993/);

  const deletePlant = await tryOut('deletePlant');
  await deletePlant.locator('input[placeholder="id"]').fill('9007199254740993');
  t.equal((await execute(deletePlant, '/plants/9007199254740993')).status, 204);

  const left = await execute(listPlants, '/plants?limit=100');
  t.match(left.text, 'plant 9007199254740992');
  t.notMatch(left.text, 'plant 9007199254740993');
  t.strictSame((await call('GET', '/plants', { token })).json, [{ name: 'plant 9007199254740992' }]);
  t.strictSame(complaints, [], 'the policy holds nothing back that the page needs');
  t.strictSame(
    requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:')),
    [],
    'nothing is requested from other origins',
  );
});
