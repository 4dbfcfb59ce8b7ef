// axum with rusqlite, as built by cargo: this process starts it, and ends with it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('./axum/target/release/peer', import.meta.url));
// It ends when its input does, so it cannot outlive this process.
const server = spawn(program, { stdio: ['pipe', 'inherit', 'inherit'] });
server.on('exit', (status) => process.exit(status ?? 1));
process.on('SIGTERM', () => server.stdin.end());
