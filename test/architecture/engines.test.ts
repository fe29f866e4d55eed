/** `engines` is a promise to users who install the package: no dependency may need a newer Node than it states, and we run on that version. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')

/** Plain JavaScript, without types. */
const WANTED_MAJOR = Number(
  /WANTED_MAJOR = (\d+)/.exec(readFileSync(join(root, 'scripts/node-24.mjs'), 'utf8'))?.[1] ?? Number.NaN,
)

interface Manifest {
  engines?: { node?: string }
  dependencies?: Record<string, string>
}

const manifestOf = (...path: string[]): Manifest =>
  JSON.parse(readFileSync(join(root, ...path, 'package.json'), 'utf8')) as Manifest

/** The lowest version that a range allows in its newest branch, as numbers; null where there is none. */
function lowestOf(range: string): number[] | null {
  const newest = range.split('||').at(-1) ?? ''
  const found = /(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(newest)
  return found === null ? null : found.slice(1).map((part) => Number(part ?? 0))
}

function isAtLeast(version: readonly number[], lowest: readonly number[]): boolean {
  const differs = version.findIndex((part, at) => part !== (lowest[at] ?? 0))
  return differs === -1 || (version[differs] ?? 0) > (lowest[differs] ?? 0)
}

test('engines names the Node version that Longhaul runs on, and no dependency needs a newer one', () => {
  const { engines, dependencies = {} } = manifestOf()
  const ours = lowestOf(engines?.node ?? '')
  assert.deepEqual(ours, [WANTED_MAJOR, 0, 0], 'the version that the command re-executes itself under')
  const names = Object.keys(dependencies)
  assert.ok(names.length > 5)
  const newer = names.filter((name) => {
    const lowest = lowestOf(manifestOf('node_modules', name).engines?.node ?? '')
    return lowest !== null && !isAtLeast(ours ?? [], lowest)
  })
  assert.deepEqual(newer, [])
})

test('the comparison finds a dependency that needs a newer version', () => {
  assert.equal(isAtLeast([20, 3, 0], lowestOf('>=22.12.0') ?? []), false)
  assert.equal(isAtLeast([24, 0, 0], lowestOf('^20.19.0 || >=22.12.0') ?? []), true)
})
