// A second checkout takes its packages from the first one's: `node_modules` is kept in the user cache under the lock file's
// hash, as hard links, so that it costs no space and a second or two. npm replaces the files of packages and never writes into
// them; its own record, `.package-lock.json`, it does write into, so that one is copied.
import {
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

/** Lock files that a person goes back and forth between; older ones are of no use. */
const KEPT = 3

/** Puts the kept packages in place. False where there are none or they cannot be used: `npm ci` is then the way. */
export function restoreNodeModules({ root, key, env = process.env }) {
  const kept = join(cacheFolder(env), key)
  if (!existsSync(kept)) return false
  const target = join(root, 'node_modules')
  try {
    rmSync(target, { recursive: true, force: true })
    linkTree(kept, target)
    const now = new Date()
    utimesSync(kept, now, now)
    return true
  } catch {
    rmSync(target, { recursive: true, force: true })
    return false
  }
}

/** Keeps the packages of a finished `npm ci`. Only a saving of time, so that a failure (full disk, read-only) is none. */
export function keepNodeModules({ root, key, env = process.env }) {
  const folder = cacheFolder(env)
  const kept = join(folder, key)
  if (existsSync(kept)) return
  const draft = join(folder, `.${key}.${process.pid}`)
  try {
    mkdirSync(folder, { recursive: true })
    linkTree(join(root, 'node_modules'), draft)
    renameSync(draft, kept)
    removeOldest(folder)
  } catch {
    rmSync(draft, { recursive: true, force: true })
  }
}

function cacheFolder(env) {
  const cache = env.LONGHAUL_CACHE || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'longhaul')
  return join(resolve(cache), 'node_modules')
}

function linkTree(from, to) {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) linkTree(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if (entry.name === '.package-lock.json') copyFileSync(source, target)
    else linkOrCopy(source, target)
  }
}

function linkOrCopy(source, target) {
  try {
    linkSync(source, target)
  } catch (error) {
    // Another file system, or one without hard links.
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP'].includes(error.code)) throw error
    copyFileSync(source, target, constants.COPYFILE_FICLONE)
  }
}

function removeOldest(folder) {
  const byUse = readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .map((name) => ({ path: join(folder, name), usedMs: statSync(join(folder, name)).mtimeMs }))
    .toSorted((a, b) => b.usedMs - a.usedMs)
  for (const { path } of byUse.slice(KEPT)) rmSync(path, { recursive: true, force: true })
}
