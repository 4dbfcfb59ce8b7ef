// The peers in Rust, as built by cargo: this process starts the one in PEER_PROGRAM, and ends with it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL(`./axum/target/release/${process.env.PEER_PROGRAM}`, import.meta.url));
// It ends when its input does, so it cannot outlive this process.
const server = spawn(program, { stdio: ['pipe', 'inherit', 'inherit'] });
server.on('exit', (status) => process.exit(status ?? 1));
process.on('SIGTERM', () => server.stdin.end());
