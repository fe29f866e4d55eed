/**
 * The story: an agent printed one line of 4,000 `=` into its patch, and a pattern that looks for results in it kept the worker busy
 * for three minutes; a line of `passed` in a log, blanks in the name of a test and a chain of options did the same. Every
 * reader of text from agents, tests, policies or rows must take time in proportion to its length. CPU time of one thread is
 * compared with a limit that is a hundred times what linear code takes, so a busy machine changes nothing.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'

import { HANG_MS } from '../../support/hang.ts'
import { type Finding, measureGrowth } from '../../support/growth/measure-growth.ts'

const module = (name: string): string => join(import.meta.dirname, '../../support/growth', name)

function shown(findings: readonly Finding[]): string[] {
  return findings.map(({ name, text, length, cpuMs }) => {
    const { before, pumped, after } = text
    const cost = cpuMs === null ? 'does not end' : `${cpuMs} ms`
    return `${name}: ${cost} at ${length} characters of ${JSON.stringify([before, pumped, after])}`
  })
}

test('finds exactly the patterns that are known to be too slow', async () => {
  const { findings } = await measureGrowth({ module: module('known-bad-subjects.ts'), hangMs: 6000 })
  // On a busy machine one of them may be found by its cost and by the limit on its whole time.
  assert.deepEqual([...new Set(findings.map(({ name }) => name))], ['cubed', 'squared', 'endless'])
})

test('the cost of each pattern that reads foreign text grows at most linearly', async () => {
  const { findings, texts } = await measureGrowth({ module: module('pattern-subjects.ts'), hangMs: HANG_MS })
  assert.deepEqual(shown(findings), [])
  assert.ok(texts > 10_000, `only ${texts} texts`)
})

test('the cost of each reader of foreign text grows at most linearly', async () => {
  const { findings, texts } = await measureGrowth({ module: module('reader-subjects.ts'), hangMs: HANG_MS })
  assert.deepEqual(shown(findings), [])
  assert.ok(texts > 10_000, `only ${texts} texts`)
})
