// Defines the generators whose clients are tried: how each client, and the program that uses it, is made.

/**
 * A generator.
 * @typedef {object} Generator
 * @property {string} version
 * @property {string} [options] - Those that docs/clients.md shows, without quotes.
 * @property {string} program - Its file beside this one.
 * @property {string} build - Generates the client in a folder that has the program, and compiles both: commands of the shell, with
 *   the contract, the version and the options in variables.
 * @property {string} run - The command that runs the program.
 */

/** @type {Record<string, Generator>} */
export const generators = {
  'openapi-python-client': {
    version: '0.29.1',
    program: 'python/openapi-python-client.py',
    build: `
      python3 -m venv venv
      PATH="$PWD/venv/bin:$PATH"
      pip install --quiet openapi-python-client==$VERSION
      openapi-python-client generate --path $CONTRACT --meta setup --output-path client
      pip install --quiet ./client`,
    run: 'venv/bin/python openapi-python-client.py',
  },
  'openapi-generator `java`': {
    version: '7.25.0',
    options: '--additional-properties=disallowAdditionalPropertiesIfNotPresent=false',
    program: 'java/Program.java',
    build: `
      mvn -q -B dependency:copy -Dartifact=org.openapitools:openapi-generator-cli:$VERSION -DoutputDirectory=.
      java -jar openapi-generator-cli-$VERSION.jar generate -i $CONTRACT -g java -o . $OPTIONS
      mv Program.java src/main/java
      mvn -q -B compile dependency:copy-dependencies`,
    run: 'java -cp target/classes:target/dependency/* Program',
  },
};
