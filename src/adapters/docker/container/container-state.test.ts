import assert from 'node:assert/strict'
import { test } from 'node:test'

import { LonghaulError } from '../../../contracts/errors.ts'
import type { Engine } from '../engine/engine.ts'
import { attributeLoss } from './container-state.ts'

const GIB = 1024 ** 3

/** What becomes of a runner's word that its disk is full, where the engine measures so many bytes. */
async function codeFor(SizeRw: number): Promise<unknown> {
  const container = { inspect: async () => ({ SizeRw, HostConfig: {} }) }
  const engine = { docker: { getContainer: () => container } } as unknown as Engine
  const full = new LonghaulError({ code: 'Sandbox.OutOfDisk', message: 'full', details: { answer: '' } })
  return ((await attributeLoss(engine, 'a', full)) as LonghaulError).code
}

test('a full disk is blamed on the host after small writes and on the container from a gibibyte on', async () => {
  assert.equal(await codeFor(GIB - 1), 'Sandbox.OutOfDisk')
  assert.equal(await codeFor(GIB), 'Sandbox.Ended')
})

// The story: folders deeper than a path may name make the engine's measurement fail, and the disk that their agent had filled was
// counted as the host's: its episode was played again.
test('a full disk is blamed on a container whose tree the engine cannot measure', async () => {
  assert.equal(await codeFor(-1), 'Sandbox.Ended')
})
