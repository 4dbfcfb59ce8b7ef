// Prints one contract from one in several files. Integers stay exact, which most bundlers round to 53 bits.
//
//   node bundle.js openapi.yaml > bundled.yaml
//
// Needs @apidevtools/json-schema-ref-parser and yaml.
import { bundle } from '@apidevtools/json-schema-ref-parser';
import { parse, stringify } from 'yaml';

const exact = {
  order: 1,
  canParse: ['.yaml', '.yml', '.json'],
  /** @param {{ data: string | Buffer }} file */
  parse: ({ data }) => parse(String(data), { intAsBigInt: true }),
};
const contract = await bundle(process.argv[2] ?? 'openapi.yaml', {
  parse: { exact, yaml: false, json: false },
});
process.stdout.write(stringify(contract, { aliasDuplicateObjects: false }));
