// Int64 becomes bigint. Kubb's fetch client neither sets a content type nor reports errors; its Axios client does both.
import { defineConfig } from '@kubb/core';
import { pluginClient } from '@kubb/plugin-client';
import { pluginOas } from '@kubb/plugin-oas';
import { pluginTs } from '@kubb/plugin-ts';

export default defineConfig({
  input: { path: process.env.CONTRACT },
  output: { path: 'client', clean: true, format: false, lint: false },
  plugins: [
    pluginOas(),
    pluginTs({ integerType: 'bigint' }),
    pluginClient({ client: 'axios', bundle: true }),
  ],
});
