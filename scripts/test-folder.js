// Creates the folder for the tests' files: in memory, where a sync costs nothing, if the system has room for them
// there.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
/** More than all tests use at the same time, in bytes. */
const enough = 2 * 2 ** 30;

/** Creates a folder. @returns {string} */
export function createTemporaryFolder() {
  return inMemory() ?? createIn(tmpdir());
}

/** Creates a folder in memory; undefined if there is too little of it, or if programs cannot run from there. */
function inMemory() {
  try {
    const { bavail, bsize } = statfsSync(memory);
    if (bavail * bsize < enough) return undefined;
    const folder = createIn(memory);
    // PostgreSQL is copied there, which a container's options may forbid to execute.
    const program = join(folder, 'program');
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
    if (spawnSync(program).status === 0) return folder;
    rmSync(folder, { recursive: true });
  } catch {
    // No such file system, or not for this user.
  }
  return undefined;
}

/** @param {string} parent */
function createIn(parent) {
  const folder = mkdtempSync(join(parent, 'plant-store-tests-'));
  // PostgreSQL, which may run as another user, must be able to reach its data.
  chmodSync(folder, 0o711);
  return folder;
}
