// `npm ci`, but only when node_modules does not hold what package-lock.json asks for.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

import { keepNodeModules, restoreNodeModules } from './node-modules-cache.mjs'
import { nodeOnPath, platformPackageNode, WANTED_MAJOR } from './node-24.mjs'

/** Throws with a readable message when npm fails. */
export function installDependencies({ root }) {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8')
  // The platform belongs to the key: optional packages differ between machines that share a folder.
  const key = createHash('sha256').update(`${process.platform}-${process.arch}\n${lock}`).digest('hex')
  const stamp = join(root, 'node_modules', '.longhaul-lock')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === key) return
  if (!matchesInstalled({ root, lock })) installPackages({ root, lock, key })
  writeAtomically(stamp, key)
}

/** Puts `node_modules/.bin/node` in place, which npm scripts and `npx` find before any other Node. */
export function linkNode24({ root }) {
  const target = platformPackageNode({ from: join(root, 'package.json') }) ?? nodeOnPath()
  if (target === undefined) return
  const link = join(root, 'node_modules', '.bin', 'node')
  if (target === link) return
  mkdirSync(dirname(link), { recursive: true })
  const temporary = `${link}.${process.pid}`
  rmSync(temporary, { force: true })
  symlinkSync(target.startsWith(root) ? relative(dirname(link), target) : target, temporary)
  renameSync(temporary, link)
}

/** npm writes `node_modules/.package-lock.json` last, so a complete and equal one proves a finished installation. */
function matchesInstalled({ root, lock }) {
  const hidden = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(hidden)) return false
  const wanted = JSON.parse(lock).packages
  const installed = JSON.parse(readFileSync(hidden, 'utf8')).packages
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true
    const found = installed[path]
    if (found === undefined) return entry.optional === true && !isForThisPlatform(entry)
    return found.version === entry.version && found.integrity === entry.integrity
  })
}

function isForThisPlatform(entry) {
  const fits = (list, value) => list === undefined || list.includes(value)
  // Optional packages without a platform may be absent for reasons of their own: not ours to repair.
  if (entry.os === undefined && entry.cpu === undefined) return false
  return fits(entry.os, process.platform) && fits(entry.cpu, process.arch) && entry.libc === undefined
}

function installPackages({ root, lock, key }) {
  const started = Date.now()
  if (restoreNodeModules({ root, key }) && matchesInstalled({ root, lock })) {
    console.error(`set-up  npm             packages of this lock file were kept (${secondsSince(started)} s)`)
    return
  }
  runNpmCi({ root, started })
  keepNodeModules({ root, key })
}

function runNpmCi({ root, started }) {
  console.error('set-up  npm             installing the pinned packages (npm ci)')
  const npm = process.env.npm_execpath?.endsWith('.js') ? [process.execPath, process.env.npm_execpath] : ['npm']
  const result = spawnSync(npm[0], [...npm.slice(1), 'ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    // 10 minutes: a cold install takes about one on two cores.
    timeout: 600_000,
  })
  if (result.status !== 0) {
    const why = result.error?.message ?? (result.signal ? `signal ${result.signal}` : `exit status ${result.status}`)
    throw new Error(`npm ci failed (${why}). Its messages are above; run it again when the cause is gone.`)
  }
  console.error(`set-up  npm             done in ${secondsSince(started)} s (Node ${WANTED_MAJOR} included)`)
}

function secondsSince(started) {
  return ((Date.now() - started) / 1000).toFixed(1)
}

function writeAtomically(path, text) {
  const temporary = `${path}.${process.pid}`
  writeFileSync(temporary, text)
  renameSync(temporary, path)
}
