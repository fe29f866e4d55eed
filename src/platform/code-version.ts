/** Version of the code that this process runs. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CodeRecord } from '../contracts/costs.types.ts'

let known: Omit<CodeRecord, 'schema'> | undefined

/** Constant for the life of the process, because its code is already loaded. */
export function codeVersion(): Omit<CodeRecord, 'schema'> {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  known ??= {
    version: packageVersion(),
    revision: gitRevision(root),
    filesSha256: hashFiles([fileURLToPath(new URL('../', import.meta.url)), join(root, 'trainer/longhaul_trainer')]),
    node: process.version,
  }
  return known
}

/** Version of this package, from the package.json above both `src` and `dist`. */
export function packageVersion(): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

const CODE = /\.(?:[jt]s|py|sh|json)$/
const TESTS = /\.test\.[jt]s$|\.d\.ts$/

/** Hash over paths and contents in order of paths, including uncommitted changes. */
function hashFiles(folders: readonly string[]): string {
  const hash = createHash('sha256')
  for (const folder of folders) {
    const paths = (readOr(() => readdirSync(folder, { recursive: true, encoding: 'utf8' })) ?? [])
      .filter((path) => CODE.test(path) && !TESTS.test(path))
      .sort()
    for (const path of paths) hash.update(`${path}\n`).update(readFileSync(join(folder, path)))
  }
  return hash.digest('hex')
}

/** The commit that is checked out in a directory; null outside of a checkout. Read without Git, which a worker's host may lack. */
export function gitRevision(root: string): string | null {
  const git = readOr(() => gitDirectory(join(root, '.git')))
  const head = git === null ? null : readText(join(git, 'HEAD'))
  if (git === null || head === null) return null
  const [, name] = /^ref: (.+)$/.exec(head) ?? []
  if (name === undefined) return asCommit(head)
  // A linked work tree has its branches in the main repository.
  const common = resolve(git, readText(join(git, 'commondir')) ?? '.')
  return asCommit(readText(join(git, name)) ?? readText(join(common, name)) ?? packed(common, name))
}

function gitDirectory(path: string): string {
  if (statSync(path).isDirectory()) return path
  const [, linked = ''] = /^gitdir: (.+)$/m.exec(readFileSync(path, 'utf8')) ?? []
  return resolve(path, '..', linked)
}

function packed(git: string, name: string): string | null {
  const line = (readText(join(git, 'packed-refs')) ?? '').split('\n').find((one) => one.endsWith(` ${name}`))
  return line?.split(' ')[0] ?? null
}

function asCommit(text: string | null): string | null {
  return text !== null && /^[0-9a-f]{40,64}$/.test(text) ? text : null
}

function readText(path: string): string | null {
  return readOr(() => readFileSync(path, 'utf8').trim())
}

/** An unreadable version is null and must not end a run. */
function readOr<T>(read: () => T): T | null {
  try {
    return read()
  } catch {
    return null
  }
}
