// Deviations from the JSON-Schema-Test-Suite on purpose: the reason, and the line of packages/server/docs/contract.md.

/**
 * Each pattern matches deviations as schemas.js names them: file, use, group, and the test or why the schema is refused.
 * The line is in packages/server/docs/contract.md.
 * @type {{ pattern: RegExp, reason: string, line: string }[]}
 */
export const deviations = [
  {
    pattern:
      /^(?!.*\$id is).*: refused: \S+ is outside of this document(; \S+ is outside of this document)*$/,
    reason: 'A contract is one file, and nothing is fetched',
    line: 'a `$ref` that is not a string, or that leads to another file or to nothing',
  },
  {
    pattern: /: refused: .*\$(id|anchor|dynamicRef|dynamicAnchor) is not supported/,
    reason: 'Tools that generate clients do not know them',
    line: '`$id` and `$dynamicRef`',
  },
  {
    pattern: /: refused: (#\S+|\S+) refers to nothing$/,
    reason: 'These tests refer to an $anchor or an $id',
    line: 'a `$ref` that is not a string, or that leads to another file or to nothing',
  },
  {
    pattern: /^format\.json \w+: .*: invalid [\w-]+ string is only an annotation by default$/,
    reason: 'The server checks the formats, as the vocabulary format-assertion allows',
    line: 'date-time, date, time, uuid, email (common form), uri, hostname, ipv4, ipv6, byte',
  },
  {
    pattern: /: refused: the name __proto__ is not supported$/,
    reason: 'JavaScript does not handle this name like others',
    line: 'the name `__proto__`',
  },
  {
    pattern: /: refused: is an integer that programs round$/,
    reason: 'The contract itself is parsed with doubles',
    line: 'an integer that programs round, as a bound of int64 or in `enum`',
  },
  {
    pattern: /: refused: allows no value$/,
    reason: 'No value is valid, which is a mistake',
    line: 'an `anyOf` or `oneOf` without alternatives',
  },
];
