// Int64 becomes bigint.
export default {
  primitiveTypeConstructs: () => ({ integer: { int64: () => 'bigint', $default: () => 'number' } }),
};
