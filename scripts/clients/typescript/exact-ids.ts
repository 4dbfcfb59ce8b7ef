// Lets JSON.stringify write a bigint with all its digits, as docs/clients.md says.
declare global {
  interface JSON {
    rawJSON(text: string): unknown;
  }
  interface BigInt {
    toJSON(): unknown;
  }
}
BigInt.prototype.toJSON = function () {
  return JSON.rawJSON(this.toString());
};
export {};
