// The static site: every page of docs/ as it is. The sidebar is docs/README.md, so that there is one index. A link that leads nowhere fails the build.
import { readFileSync, readdirSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const docs = new URL('../../../docs/', import.meta.url)
const repository = 'https://github.com/nodetrail/nodetrail/blob/main/'

// page is where the site has a file of docs/.
const page = (path) => path.replace(/(^|\/)README\.md(?=$|#)/, '$1index.md')

// inFolder are the pages of a folder of docs/, by name.
const inFolder = (folder) =>
  readdirSync(new URL(folder + '/', docs))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .sort()
    .map((name) => ({ text: name.replace(/\.md$/, ''), link: `/${folder}/${name}` }))

// sidebar has a group for each heading of docs/README.md, with its links to pages.
function sidebar() {
  const groups = []
  for (const line of readFileSync(new URL('README.md', docs), 'utf8').split('\n')) {
    const heading = line.match(/^## (.*)/)
    if (heading) groups.push({ text: heading[1], items: [] })
    const link = line.match(/^- \[([^\]]+)\]\(([^)#]+\.md)\)/)
    if (!link || link[2].startsWith('../')) continue
    const item = { text: link[1].replace(/\.md$/, ''), link: '/' + page(link[2]) }
    const folder = link[2].match(/^([a-z]+)\/README\.md$/)
    if (folder) Object.assign(item, { collapsed: true, items: inFolder(folder[1]) })
    groups.at(-1).items.push(item)
  }
  return groups.filter((group) => group.items.length)
}

// links has what is outside of docs/ lead to the repository.
function links(md) {
  md.core.ruler.push('links', ({ tokens, env }) => {
    const folder = posix.join('docs', posix.dirname(env.relativePath))
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const target = posix.join(folder, href)
      token.attrSet('href', target.startsWith('docs/') ? page(href) : repository + target)
    }
  })
}

// module is the file of a module that is installed here.
const module = (name) => fileURLToPath(import.meta.resolve(name))

export default {
  title: 'nodetrail',
  description: 'Every kubelet request, judged as the Node authorizer would have judged it at that time',
  srcDir: '../../docs',
  outDir: '../../dist/site',
  cleanUrls: false,
  lastUpdated: false,
  ignoreDeadLinks: 'localhostLinks', // what compose serves
  rewrites: { 'README.md': 'index.md', ':folder/README.md': ':folder/index.md' },
  markdown: {
    html: false, // <FILE> is a word, not an element
    config: (md) => {
      links(md)
      // {{ }} is the alerts' and Grafana's, not the site's.
      md.core.ruler.push('literally', ({ tokens, Token }) => {
        for (const [at, content] of [[0, '<div v-pre>'], [tokens.length + 1, '</div>']]) {
          tokens.splice(at, 0, Object.assign(new Token('html_block', '', 0), { content }))
        }
      })
    },
  },
  // docs/ has no node_modules above it.
  vite: { resolve: { alias: ['vue', 'vue/server-renderer'].map((name) => ({ find: new RegExp(`^${name}$`), replacement: module(name) })) } },
  themeConfig: {
    sidebar: sidebar(),
    search: { provider: 'local' },
    outline: 'deep',
    socialLinks: [{ icon: 'github', link: 'https://github.com/nodetrail/nodetrail' }],
  },
}
