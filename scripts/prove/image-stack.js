// Docker, and the stack of compose.yaml as an operator runs it: from a folder of its own, with the image built before.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const project = fileURLToPath(new URL('../../', import.meta.url));

/** The result of a program. @typedef {{ code: number, stdout: string, stderr: string }} Finished */

/**
 * Runs a program until it ends.
 * @param {string} program @param {string[]} args @param {{ cwd?: string, env?: Record<string, string> }} [options]
 * @returns {Promise<Finished>}
 */
export function run(program, args, { cwd = project, env = {} } = {}) {
  return promisify(execFile)(program, args, {
    cwd,
    env: { ...process.env, ...env },
    maxBuffer: 2 ** 28,
  }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => ({
      code: error.code ?? -1,
      stdout: error.stdout ?? '',
      stderr: error.stderr || String(error),
    }),
  );
}

/** Runs docker. @param {string[]} args @returns {Promise<string>} What it printed. @throws {Error} when it fails. */
export async function docker(...args) {
  const { code, stdout, stderr } = await run('docker', args);
  if (code !== 0) throw new Error(`docker ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
}

/**
 * Builds an image on another one, with a different last line.
 * @param {string} from
 * @param {string} tag
 * @param {string} line
 */
export async function derive(from, tag, line) {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-image-'));
  await writeFile(join(folder, 'Dockerfile'), `FROM ${from}\n${line}\n`);
  await docker('build', '--quiet', '--tag', tag, folder);
  await rm(folder, { recursive: true });
}

/** The stack of compose.yaml. */
export class Stack {
  #folder;
  #env;

  /** @param {string} folder @param {string} image */
  constructor(folder, image) {
    this.#folder = folder;
    this.#env = {
      COMPOSE_PROJECT_NAME: 'plant-store-proof',
      POSTGRES_PASSWORD: 'proof',
      PLANTS_NETWORK: '172.28.91',
      PLANT_STORE_IMAGE: image,
      READY_SECONDS: '20',
    };
  }

  /** Starts the stack. @param {string} image @returns {Promise<Stack>} */
  static async start(image) {
    const folder = await mkdtemp(join(tmpdir(), 'plant-store-stack-'));
    // Any free ports instead of 3000 and 8404, which something else may use here.
    const compose = (await readFile(join(project, 'compose.yaml'), 'utf8')).replaceAll(
      /127\.0\.0\.1:\d+:/g,
      '127.0.0.1:0:',
    );
    await writeFile(join(folder, 'compose.yaml'), compose);
    await cp(join(project, 'deploy'), join(folder, 'deploy'), { recursive: true });
    const stack = new Stack(folder, image);
    await stack.compose('up', '--detach', '--no-build', '--quiet-pull');
    return stack;
  }

  /** Runs docker compose. @param {string[]} args @returns {Promise<string>} @throws {Error} when it fails. */
  async compose(...args) {
    const { code, stdout, stderr } = await run('docker', ['compose', ...args], {
      cwd: this.#folder,
      env: this.#env,
    });
    if (code !== 0) throw new Error(`docker compose ${args.join(' ')}: ${stderr}`);
    return stdout.trim();
  }

  /** Replaces the instances. @param {string} image @returns {Promise<Finished>} */
  upgrade(image) {
    return run(join(this.#folder, 'deploy/upgrade.sh'), [image], { cwd: this.#folder, env: this.#env });
  }

  /** Changes the number of instances. @param {number} count */
  async scale(count) {
    const options = ['--detach', '--no-build', '--no-deps', '--no-recreate'];
    await this.compose('up', ...options, '--scale', `service=${count}`, 'service');
  }

  /** The ids of the instances. @returns {Promise<string[]>} */
  async instances() {
    return (await this.compose('ps', '--quiet', 'service')).split('\n').filter(Boolean);
  }

  /** The address of a port of the balancer. @param {number} port */
  async origin(port) {
    return `http://${await this.compose('port', 'balancer', String(port))}`;
  }

  /** The number of instances that the balancer uses. */
  async serving() {
    const text = await (await fetch(`${await this.origin(8404)}/;csv`)).text();
    return text.split('\n').filter((line) => {
      const fields = line.split(',');
      return fields[0] === 'plants' && fields[1]?.startsWith('instance') && fields[17] === 'UP';
    }).length;
  }

  /** @param {string} subject @returns {Promise<string>} A token. */
  createToken(subject) {
    return this.compose('exec', '-T', 'service', 'plant-store', 'token', 'create', subject);
  }

  /** Removes everything. */
  async remove() {
    await this.compose('down', '--volumes', '--timeout', '5');
    await rm(this.#folder, { recursive: true });
  }
}
