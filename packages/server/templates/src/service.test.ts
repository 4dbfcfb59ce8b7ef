// Tests the service without a port. Every response must be one that the contract
// has.
// ?store
// Each test has an empty store.
// /store
// ?noStore
// What `open` opens is what it is told to: give tests a database of their own.
// /noStore
import assert from "node:assert/strict";
import { test } from "node:test";
import { openTestService } from "contract-server/testing";
import { service } from "./service.js";

test("the service opens, and publishes its contract", async (t) => {
  const opened = await openTestService(service);
  t.after(() => opened.close());
  const { status } = await opened.request("GET", "/openapi.json");
  assert.equal(status, 200);
});
