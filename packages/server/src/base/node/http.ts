// What the service needs of Node's HTTP module.

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');
