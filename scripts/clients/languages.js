// The generators for languages other than TypeScript.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { command, contract, generate, openapiGenerator } from './build.js';

const openapi = `openapi-generator ${openapiGenerator}`;
const oapiCodegen = 'v2.8.2';
const openapiPythonClient = '0.29.1';

const openapiCommand = (/** @type {string} */ language) =>
  `openapi-generator-cli generate -i openapi.yaml -g ${language} -o client`;
const cargoBinary = (/** @type {string} */ folder) =>
  join(process.env['CARGO_TARGET_DIR'] ?? join(folder, 'target'), 'debug/round-trip');

/** @type {Record<string, import('./build.js').Client>} */
export const clients = {
  'openapi-python-client': {
    tool: `openapi-python-client ${openapiPythonClient}`,
    language: 'Python',
    needs: ['python3'],
    async build(folder) {
      await command(folder, 'python3', '-m', 'venv', 'venv');
      await command(
        folder,
        'venv/bin/pip',
        'install',
        '--quiet',
        `openapi-python-client==${openapiPythonClient}`,
      );
      const options = ['generate', '--path', contract, '--meta', 'setup', '--output-path', 'client'];
      await command(folder, 'venv/bin/openapi-python-client', ...options, {
        PATH: `${join(folder, 'venv/bin')}:${process.env['PATH']}`,
      });
      await command(folder, 'venv/bin/pip', 'install', '--quiet', './client');
      await command(folder, 'python3', '-m', 'compileall', '-q', 'client');
    },
    run: (folder) => [join(folder, 'venv/bin/python'), 'round_trip.py'],
    program: 'round_trip.py',
    command: 'openapi-python-client generate --path openapi.yaml',
    set: 'Create an `AuthenticatedClient` with `base_url` and `token`.',
    errors: '`parsed` of what the `_detailed` functions return is an `Error`; `status_code` is the status.',
  },
  java: {
    tool: `${openapi}, \`java\``,
    language: 'Java',
    needs: ['java', 'javac', 'mvn'],
    async build(folder) {
      await generate('java', folder, '.');
      await cp(join(folder, 'RoundTrip.java'), join(folder, 'src/main/java/RoundTrip.java'));
      await command(folder, 'mvn', '-q', '-B', 'compile', 'dependency:copy-dependencies');
    },
    run: () => ['java', '-cp', 'target/classes:target/dependency/*', 'RoundTrip'],
    program: 'RoundTrip.java',
    command: openapiCommand('java'),
    set: 'Call `setBasePath` and `setBearerToken` of `ApiClient`.',
    errors: '`ApiException` with the status; `Error.fromJson(getResponseBody())` parses the body.',
  },
  kotlin: {
    tool: `${openapi}, \`kotlin\``,
    language: 'Kotlin',
    needs: ['java', 'mvn'],
    async build(folder) {
      await generate('kotlin', folder, '.');
      await cp(join(folder, 'RoundTrip.kt'), join(folder, 'src/main/kotlin/RoundTrip.kt'));
      await command(folder, 'mvn', '-q', '-B', 'compile', 'dependency:copy-dependencies');
    },
    run: () => ['java', '-cp', 'target/classes:target/dependency/*', 'RoundTripKt'],
    program: 'RoundTrip.kt',
    command: openapiCommand('kotlin'),
    set: 'Pass the address to `PlantsApi`, and set `ApiClient.accessToken`, which all clients of the process share.',
    errors:
      '`ClientException` or `ServerException` with the status; its `response` has the body as text, which ' +
      '`Serializer.moshi` parses.',
  },
  'oapi-codegen': {
    tool: `oapi-codegen ${oapiCodegen}`,
    language: 'Go',
    needs: ['go'],
    async build(folder) {
      const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${oapiCodegen}`;
      const options = ['-generate', 'types,client', '-package', 'plants', '-o', 'plants/plants.gen.go'];
      await command(folder, 'mkdir', 'plants');
      await command(folder, 'go', 'run', tool, ...options, contract);
      await command(folder, 'go', 'mod', 'init', 'roundtrip');
      await command(folder, 'go', 'mod', 'tidy');
      await command(folder, 'go', 'vet', './...');
      await command(folder, 'go', 'build', '-o', 'roundtrip', '.');
    },
    run: (folder) => [join(folder, 'roundtrip')],
    program: 'main.go',
    command: 'oapi-codegen -generate types,client -package plants -o plants/plants.gen.go openapi.yaml',
    set: 'Pass the address of the server, and set the token in a `RequestEditorFn`.',
    errors: 'One field per status (`JSON400`, `JSON404`, …), each an `*Error`.',
  },
  rust: {
    tool: `${openapi}, \`rust\``,
    language: 'Rust',
    needs: ['java', 'mvn', 'cargo'],
    async build(folder) {
      await generate('rust', folder, 'client');
      await command(folder, 'cargo', 'build', '--quiet');
    },
    run: (folder) => [cargoBinary(folder)],
    program: 'src/main.rs',
    command: openapiCommand('rust'),
    set: 'Set `base_path` and `bearer_access_token` of `Configuration`.',
    errors: '`Error::ResponseError` with the status; `serde_json` parses its `content` as an `Error`.',
  },
  php: {
    tool: `${openapi}, \`php\``,
    language: 'PHP',
    needs: ['java', 'mvn', 'php'],
    async build(folder) {
      await generate('php', folder, 'client');
      const lint = "find client/lib round_trip.php -name '*.php' -print0 | xargs -0 -n 1 php -l";
      await command(folder, 'sh', '-c', lint);
    },
    run: () => ['php', 'round_trip.php'],
    program: 'round_trip.php',
    command: openapiCommand('php'),
    set: 'Call `setHost` and `setAccessToken` of `Configuration`. Ids are exact only where PHP has 64 bits.',
    errors: '`ApiException` with the status; its `getResponseObject()` is an `Error`.',
  },
  ruby: {
    tool: `${openapi}, \`ruby\``,
    language: 'Ruby',
    needs: ['java', 'mvn', 'ruby'],
    async build(folder) {
      await generate('ruby', folder, 'client');
      await command(folder, 'sh', '-c', "find client/lib -name '*.rb' -print0 | xargs -0 -n 1 ruby -c");
    },
    run: () => ['ruby', '-I', 'client/lib', 'round_trip.rb'],
    program: 'round_trip.rb',
    command: openapiCommand('ruby'),
    set: 'Set `scheme`, `host` (with the port) and `access_token` of `Configuration`.',
    errors: '`ApiError` with the status; `Error.build_from_hash` reads the parsed body.',
  },
};
