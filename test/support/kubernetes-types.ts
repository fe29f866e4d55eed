/** Decodes manifests into the Kubernetes API's own Go types: infra/kubernetes/types, built once into the user cache. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { goProgram } from '../../src/stack/setup/go-build.ts'
import { HANG_MS } from './hang.ts'

const MODULE = join(import.meta.dirname, '../../infra/kubernetes/types')
const SOURCES = ['go.mod', 'go.sum', 'main.go']

const go = await goProgram()
export const withoutGo: string | false = go === null ? 'Go is not installed' : false

/** One answer per manifest: `ok`, or the first field that its type does not know. */
export async function decodeStrictly(manifests: unknown[]): Promise<string[]> {
  const program = await build()
  return new Promise((resolve, reject) => {
    // The program exits with 1 if a manifest was refused; the answers say which.
    const child = execFile(program, { timeout: HANG_MS }, (error, stdout) => {
      if (error !== null && error.code !== 1) reject(error)
      else resolve(stdout.trim().split('\n'))
    })
    child.stdin?.end(manifests.map((manifest) => `${JSON.stringify(manifest)}\n`).join(''))
  })
}

/** The API's packages take a minute to compile, so the program is cached by the hash of its sources. */
async function build(): Promise<string> {
  const hash = createHash('sha256')
  for (const name of SOURCES) hash.update(readFileSync(join(MODULE, name)))
  const cache = process.env['LONGHAUL_CACHE'] ?? join(process.env['HOME'] ?? '/root', '.cache/longhaul')
  const program = join(cache, 'kubernetes-types', hash.digest('hex').slice(0, 16))
  if (existsSync(program)) return program
  await mkdir(join(program, '..'), { recursive: true })
  const env = { ...process.env, GOWORK: 'off', GOFLAGS: '' }
  await promisify(execFile)(go ?? 'go', ['build', '-o', `${program}.${process.pid}`, '.'], {
    cwd: MODULE,
    env,
    timeout: 900_000,
  })
  await rename(`${program}.${process.pid}`, program)
  return program
}
