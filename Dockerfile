# Builds the service in one stage and runs it in another, which has neither sources nor development tools.
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json openapi.yaml ./
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 OPS_PORT=9090 DATABASE_URL=file:/data/plants.db
WORKDIR /app
COPY --from=build /app/package.json /app/openapi.yaml ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
# The command plant-store, for "docker run IMAGE plant-store …" and "docker exec".
RUN ln -s /app/dist/cli.js /usr/local/bin/plant-store && chmod 0755 dist/cli.js \
  && mkdir -m 0700 /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 3000
# Checks that the process is alive, not that it is ready: a restart does not repair the database.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.OPS_PORT}/livez`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js"]
