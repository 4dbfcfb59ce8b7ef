// The part of Node's HTTP module that the service needs.

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');
