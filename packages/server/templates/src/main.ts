// Starts the server.
import { start } from "contract-server/start";

await start(() => import("./service.js"));
