// The documents as a site: which page is where, in the order of reading. The Markdown files stay as a code host shows them;
// what differs in a site is changed while it is built: addresses of links, and diagrams, which become SVG.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { renderMermaidSVG } from 'beautiful-mermaid';
import { defineConfig } from 'vitepress';

const root = join(import.meta.dirname, '../..');
// Where links to files that are not pages lead, such as https://HOST/OWNER/NAME/blob/COMMIT/. Without it, they are text.
const source = process.env['SOURCE_URL'];
// The folder of the host where the site is, such as /NAME/.
const base = process.env['SITE_BASE'] ?? '/';

/** For each part of the site its kinds of pages, and for each page its file and its name in the sidebar. */
const parts = {
  '/': {
    Tutorial: { 'README.md': 'Start it, store a plant' },
    'How-to guides': {
      'docs/api.md': 'Use the API',
      'packages/client/README.md': 'TypeScript client',
      'docs/clients.md': 'Other clients',
      'examples/README.md': 'Example programs',
      'docs/operate.md': 'Run it with systemd',
      'docs/containers.md': 'Run it in containers',
      'docs/postgres.md': 'PostgreSQL',
      'docs/identity-provider.md': 'Identity provider',
      'docs/monitor.md': 'Monitor it',
      'docs/runbook.md': 'Repair it',
      'docs/restore.md': 'Restore a backup',
      'CONTRIBUTING.md': 'Change it',
    },
    Reference: {
      'packages/server/docs/configuration.md': 'Settings',
      'docs/limits.md': 'Limits',
      'docs/specification.md': 'The specification, answered',
      'docs/evidence.md': 'Evidence',
      'docs/benchmarks.md': 'Benchmarks',
      'CHANGELOG.md': 'Changes',
    },
    Explanation: {
      'docs/choose.md': 'Choose it or not',
      'docs/behavior.md': 'What it does by itself',
      'SECURITY.md': 'Security',
      'DESIGN.md': 'Design',
    },
  },
  '/server/': {
    Tutorial: {
      'packages/server/README.md': 'What it is',
      'packages/server/docs/start-your-own.md': 'Start your own service',
    },
    'How-to guides': {
      'packages/server/docs/service.md': 'Write a service',
      'packages/server/docs/recipes.md': 'Recipes',
      'packages/server/docs/login.md': 'Register, log in, log out',
      'packages/server/docs/own-database.md': 'A database of your own',
      'packages/server/docs/extend.md': 'Plugins, hooks and routes',
      'packages/server/docs/fields.md': 'Remove or rename a field',
    },
    Reference: {
      'packages/server/docs/contract.md': 'Supported OpenAPI features',
      'packages/server/docs/reference.md': 'Interface',
      'packages/server/docs/configuration.md': 'Settings',
    },
    Explanation: { 'docs/choose.md': 'Choose it or not', 'DESIGN.md': 'Design' },
  },
};

const files = Object.values(parts).flatMap((kinds) => Object.values(kinds).flatMap(Object.keys));
const placeOf = (file) =>
  file
    .toLowerCase()
    .replace(/packages\/|docs\//g, '')
    .replace('readme.md', 'index.md');
/** The place in the site by the file that it is made from. */
const places = Object.fromEntries(files.map((file) => [file, placeOf(file)]));
const addressOf = (file) => `/${places[file].replace(/(index)?\.md$/, '')}`;

/** As code hosts name headings, so that a link to one works in both. */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-');

/** Replaces the address of a link in a file by that in the site or at the code host; undefined removes the link. */
function target(file, href) {
  const [path, anchor] = decodeURI(href).split('#');
  const linked = join(dirname(file), path);
  if (linked in places) return addressOf(linked) + (anchor === undefined ? '' : `#${anchor}`);
  if (!existsSync(join(root, linked))) throw new Error(`${file} links to ${href}, which does not exist`);
  return source && `${source}${linked}`;
}

/** @param {import('markdown-it').default} markdown */
function configure(markdown) {
  markdown.core.ruler.push('targets', ({ tokens, env }) => {
    const file = relative(root, env.realPath ?? env.path);
    for (const { children } of tokens) {
      let isRemoved = false;
      for (const token of children ?? []) {
        const href = token.attrGet('href');
        if (token.type === 'link_open' && !/^(\w+:|#)/.test(href)) {
          const address = target(file, href);
          isRemoved = address === undefined;
          if (!isRemoved) token.attrSet('href', address);
        }
        if (!isRemoved || !/^link_/.test(token.type)) continue;
        isRemoved = token.type === 'link_open';
        Object.assign(token, { type: 'text', content: '' });
      }
    }
  });
  const fence = markdown.renderer.rules.fence;
  markdown.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index];
    if (info !== 'mermaid') return fence(tokens, index, ...rest);
    const [line = '', title = 'Diagram'] = / *accTitle: (.*)\n/.exec(content) ?? [];
    // The renderer takes a path for the name of a node only in brackets.
    const diagram = content.replace(line, '').replaceAll(/(\w+)\/(\w+)/g, '$1_$2[$1/$2]');
    const svg = renderMermaidSVG(diagram, {
      transparent: true,
      padding: 4,
      bg: 'var(--vp-c-bg)',
      fg: 'var(--vp-c-text-1)',
      muted: 'var(--vp-c-text-1)',
    });
    // The site has the font, so no other host is asked for it; and Vue takes styles only from a component.
    const inPage = svg
      .replace(/@import.*\n/, '')
      .replace('<style>', '<component is="style">')
      .replace('</style>', '</component>');
    return `<div class="diagram" role="img" aria-label="${title}" tabindex="0">${inPage}</div>`;
  };
}

/** Throws if a link of the site leads nowhere. VitePress itself does not look at anchors. */
function checkLinks({ outDir }) {
  const pages = readdirSync(outDir, { recursive: true }).filter((file) => file.endsWith('.html'));
  const dead = [];
  for (const page of pages) {
    for (const [, href] of readFileSync(join(outDir, page), 'utf8').matchAll(/<a [^>]*href="([^"]*)"/g)) {
      const { pathname, hash, host } = new URL(href, `http://site${base}${page}`);
      if (host !== 'site') continue;
      const path = pathname
        .slice(base.length)
        .replace(/(^|\/)$/, '$1index')
        .replace(/\.html$/, '');
      const id = decodeURIComponent(hash.slice(1));
      const file = join(outDir, `${path}.html`);
      if (!existsSync(file) || (id && !readFileSync(file, 'utf8').includes(` id="${id}"`)))
        dead.push(`${page}: ${href}`);
    }
  }
  if (dead.length > 0) throw new Error(`Links of the site lead nowhere:\n${dead.join('\n')}`);
}

export default defineConfig({
  title: 'Plant Store',
  description: 'A REST service generated from its OpenAPI contract, and the server that runs it',
  base,
  srcDir: root,
  rewrites: places,
  srcExclude: ['{.*,data,scripts,site}/**', '**/{dist,dist-test,templates,test}/**', 'docs/README.md'],
  cleanUrls: true,
  head: [
    [
      'style',
      {},
      `.diagram { margin: 16px 0; overflow-x: auto }
      .diagram svg { height: auto; max-width: 100%; min-width: 560px }
      .vp-doc div[class*='language-'] > span.lang { color: var(--vp-c-text-2) }
      .DocSearch-Button-Keys { display: none !important }`,
    ],
  ],
  markdown: {
    anchor: { slugify },
    config: configure,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Plant Store', link: '/', activeMatch: '^/(?!server/)' },
      { text: 'contract-server', link: '/server/', activeMatch: '^/server/' },
    ],
    sidebar: Object.fromEntries(
      Object.entries(parts).map(([part, kinds]) => [
        part,
        Object.entries(kinds).map(([text, pages]) => ({
          text,
          items: Object.entries(pages).map(([file, name]) => ({ text: name, link: addressOf(file) })),
        })),
      ]),
    ),
  },
  // The pages are outside of the folder that has node_modules.
  vite: {
    resolve: { alias: { vue: join(import.meta.dirname, '../node_modules/vue') } },
  },
  buildEnd: checkLinks,
});
