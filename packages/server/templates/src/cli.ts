// Runs the command, which starts the server, and manages tokens and the store.
import { runCommand } from "contract-server/start";

await runCommand(() => import("./service.js"));
