/** Sandbox workers are killed while they open, play, capture, close and grade: `npm run bench:leaks` does it a hundred times. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { needsStack } from '../support/pipeline-world.ts'
import { withLeakStack } from '../support/leaks/leak-stack.ts'
import { playLeaks } from '../support/leaks/play-leaks.ts'

test('five kills and a stop of everything leak no container, network, volume, process or descriptor', {
  skip: needsStack,
}, async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'lh-leaks-'))
  try {
    const stack = { name: `leaks-${process.pid}`, home, signal: t.signal }
    const report = await withLeakStack(stack, (world) =>
      playLeaks({ world, kills: 5, seed: 7, leaseS: 15, quietEpisodes: 4, say: console.error, signal: t.signal }),
    )
    t.diagnostic(JSON.stringify(report))
    assert.deepEqual(report.leaks, [])
    const met = Object.values(report.hit).reduce((sum, count) => sum + count, 0)
    assert.ok(met > 0, 'no kill met a container: the test proved nothing')
    const { agent = 0, gate = 0 } = report.containersSeen
    assert.ok(agent > 0 && gate > 0, `agents and gates were open: ${JSON.stringify(report.containersSeen)}`)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
})
