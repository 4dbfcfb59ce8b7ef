// A real browser for tests, which can only reach this machine.
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';
import type { Test } from 'tap';

const executablePath = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

/** Why there is no browser; undefined if there is one. */
export const noBrowser = existsSync(executablePath)
  ? undefined
  : `there is no ${executablePath} (set CHROMIUM_PATH to Chromium or Chrome)`;

/** Starts a browser, which ends with the test. It also reaches this machine as plants.example. */
export async function startBrowser(t: Test): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      // Only the name of the service resolves, and browsers do not regard it as the local machine.
      '--host-resolver-rules=MAP plants.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  });
  t.teardown(() => browser.close());
  return browser;
}
