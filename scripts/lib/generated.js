// Writes generated files.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import prettier from 'prettier';

/** Whether this process only verifies that the files are current. */
export const check = process.argv.includes('--check');

/**
 * Formats and writes a generated file. With --check, it only verifies that the file is current, and otherwise lets this
 * process fail.
 * @param {string} file - Relative to the root.
 * @param {string} text
 */
export async function writeGenerated(file, text) {
  const path = fileURLToPath(new URL(`../../${file}`, import.meta.url));
  const style = await prettier.resolveConfig(path);
  const formatted = await prettier.format(text, { ...style, filepath: path });
  if (!check) return writeFileSync(path, formatted);
  if (readFileSync(path, 'utf8') === formatted) return;
  console.error(`${file} is out of date: run "npm run generate"`);
  process.exitCode = 1;
}
