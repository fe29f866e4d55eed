// Builds the viewer's pages with Vite and prints the folder that holds them. With an argument, into that folder; without, into
// the cache, where the same sources and packages are built once. Needs the development packages: installed packages ship the pages.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const [target = cached()] = process.argv.slice(2)

if (process.argv[2] !== undefined || !existsSync(join(target, 'index.html'))) await build(resolve(target))
console.log(resolve(target))

/** The last file is renamed into place as a folder: readers see all pages or none. */
async function build(folder) {
  const draft = `${folder}.${process.pid}`
  const { build: runVite } = await import('vite')
  const configFile = join(root, 'viewer/vite.config.mjs')
  for (const mode of ['production', 'start']) {
    await runVite({ configFile, mode, logLevel: 'error', build: { outDir: draft } })
  }
  mkdirSync(dirname(folder), { recursive: true })
  rmSync(folder, { recursive: true, force: true })
  try {
    renameSync(draft, folder)
  } catch (error) {
    // Another process built the same pages at the same time.
    if (!existsSync(join(folder, 'index.html'))) throw error
    rmSync(draft, { recursive: true, force: true })
  }
}

function cached() {
  const cache = process.env.LONGHAUL_CACHE || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'longhaul')
  const hash = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')))
  for (const folder of ['viewer', 'src/viewer']) {
    for (const file of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).sort()) {
      if (/\.(?:tsx?|css|html|mjs)$/.test(file)) hash.update(`${file}\0`).update(readFileSync(join(root, folder, file)))
    }
  }
  return join(resolve(cache), 'viewer', hash.digest('hex').slice(0, 16))
}
