// Lets JSON.stringify write a bigint as a number with all its digits. JSON.rawJSON exists in Node.js 22 and later, and
// in current browsers, but not in TypeScript's libraries.
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
