# Builds the service in one stage and runs it in another, which has neither sources nor development tools.
# A tag can change what it names; docs/containers.md says how to name the image by its digest.
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages/server/package.json packages/server/
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json openapi.yaml ./
COPY scripts/build.js scripts/
COPY packages/server packages/server
COPY src src
# Only what runs is kept: no types, no tests of packages, and of SQLite, which comes compiled for every platform and as
# source, this platform's.
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts \
  && find dist packages/server/dist \( -name '*.d.ts' -o -name '*.tsbuildinfo' \) -delete \
  && find node_modules -type d -path '*node_modules/*/test' -prune -exec rm -r {} + \
  && cd node_modules/@photostructure/sqlite && rm -r src \
  && find prebuilds -type f ! -path "prebuilds/linux-$(node -p process.arch)/*glibc.node" -delete

FROM ${NODE_IMAGE}
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 OPS_PORT=9090 DATABASE_URL=file:/data/plants.db
WORKDIR /app
COPY --from=build /app/package.json /app/openapi.yaml ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/packages/server/package.json ./packages/server/
COPY --from=build /app/packages/server/dist ./packages/server/dist
COPY --from=build /app/dist ./dist
COPY deploy ./deploy
# The command plant-store, for "docker run IMAGE plant-store …" and "docker exec". Any user may write to /data, so that
# "docker run --user" works with a new volume; the files of the store belong to the one who does.
RUN ln -s /app/dist/cli.js /usr/local/bin/plant-store && chmod 0755 dist/cli.js && mkdir -m 1777 /data
VOLUME /data
USER node
EXPOSE 3000
# Checks that the process is alive, not that it is ready: a restart does not repair the database. Bash starts faster than
# Node.js, and in less memory.
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s --retries=5 \
  CMD ["bash", "-c", "exec 3<>\"/dev/tcp/127.0.0.1/$OPS_PORT\" && printf 'GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && ((status == 200))"]
# Without the option, Node.js 24 takes far more memory for new objects, and is no faster.
CMD ["node", "--max-semi-space-size=16", "dist/main.js"]
