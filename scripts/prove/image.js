// Checks what docs/containers.md promises of the image and of compose.yaml, with a real Docker daemon: prints a line for
// each step, and for those under load how many requests were sent, how many failed, and the longest time without a success.
//
//   npm run prove:image -- --help
import { readFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { docker, project, run } from './image-stack.js';
import { proveContainers } from './image-containers.js';
import { proveRolling } from './image-rolling.js';

/** @type {{ only: string, image?: string }} */
const values = new Command('npm run prove:image --')
  .description(
    `Needs a Docker daemon with compose, and the images that Dockerfile and compose.yaml name. Takes about twenty minutes.`,
  )
  .addOption(new Option('--only <PART>').choices(['containers', 'rolling']).default(''))
  .option('--image <NAME>', 'this image, built from this checkout; without it, the image is built first')
  .parse()
  .opts();

/** Prints the result of a step, and keeps whether all succeeded. */
const report = {
  failed: 0,
  /** @param {string} what @param {boolean} holds @param {string} [details] */
  line(what, holds, details = '') {
    if (!holds) this.failed++;
    console.log(`${holds ? 'yes' : 'NO '}  ${what.padEnd(72)} ${details}`);
  },
  /** @param {string} what @param {import('./image-load.js').Outcome} outcome @param {number} [mayFail] */
  load(what, { sent, failures, longestGap }, mayFail = 0) {
    const details = `${sent} sent, ${failures.length} failed, ${Math.round(longestGap)} ms at most without a success`;
    this.line(what, failures.length <= mayFail, details);
    for (const failure of new Set(failures)) console.log(`       ${failure}`);
  },
};
/** @typedef {typeof report} Report */

const { code, stderr } = await run('docker', ['compose', 'ls']);
if (code !== 0) {
  console.log(`Nothing was tried: ${stderr.trim()}`);
  process.exit(1);
}
const image = values.image ?? 'plant-store-proof:1';
if (values.image === undefined) {
  const begin = performance.now();
  await docker('build', '--quiet', '--tag', image, project);
  const took = `${Math.round((performance.now() - begin) / 1000)} s`;
  report.line('the image builds', true, took);
}
const stages = readFileSync(`${project}/Dockerfile`, 'utf8').match(/(?<=^FROM )\S+/gm) ?? [];
const base = stages.at(-1) ?? '';
const sizes = [image, base].map((name) => docker('image', 'inspect', '--format', '{{.Size}}', name));
const [whole = 0, below = 0] = (await Promise.all(sizes)).map(Number);
const above = (whole - below) / 2 ** 20;
report.line('the image is small', above < 40, `${above.toFixed(0)} MiB above ${base}`);

if ('containers'.includes(values.only)) await proveContainers(report, image);
if ('rolling'.includes(values.only)) await proveRolling(report, image);

process.exitCode = report.failed === 0 ? 0 : 1;
