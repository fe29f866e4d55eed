/** More live episodes than a worker is used to, on a server of their own, with scripted sandboxes: `npm run bench:scale` in small. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { HANG_MS } from '../support/hang.ts'
import { type PlayScaleInput, playScale, startScaleStack } from '../support/scale/play-scale.ts'
import type { RunningStack } from '../support/start-stack.ts'

describe('many live episodes', () => {
  let folder = ''
  let stack: RunningStack

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'scale-'))
    stack = await startScaleStack({ home: join(folder, 'home') })
  })
  after(async () => {
    await stack.stop()
    await rm(folder, { recursive: true, force: true })
  })
  useEnvironment({ after })

  test('one host plays all of its sandboxes at once without waiting for each other’s steps', async () => {
    const { audit, counts } = await play({ run: 'together', tasks: 11, groupSize: 10, turns: 2 }, { together: 110 })
    assert.deepEqual(audit, { episodes: 110, turns: 220, replayed: 0, problems: [] })
    assert.equal(counts.episodes, 110)
  })

  test('each episode and turn counts once although worker, hosts and server are killed in turn', async () => {
    const shape = { run: 'killed', tasks: 4, groupSize: 10, turns: 16 }
    const { audit, counts, kills } = await play(shape, { thinkMs: 400, killEveryMs: 1_000, hosts: 2, together: 40 })
    assert.ok(Object.keys(kills).length === 3, `killed: ${JSON.stringify(kills)}`)
    // A host that a busy machine starts again after more than two minutes has lost its sandboxes: their turns are replayed elsewhere.
    const { replayed: _replayed, ...held } = audit
    assert.deepEqual(held, { episodes: 40, turns: 40 * 16, problems: [] })
    assert.deepEqual([counts.episodes, counts.infra], [40, 0])
  })

  async function play(
    shape: Omit<PlayScaleInput['shape'], 'turnsPerStep'>,
    changes: Partial<Pick<PlayScaleInput, 'together' | 'thinkMs' | 'killEveryMs' | 'hosts'>>,
  ) {
    const place = await mkdtemp(join(folder, `${shape.run}-`))
    const input = { stack, folder: place, shape: { ...shape, turnsPerStep: 8 }, timeoutMs: HANG_MS }
    return playScale({ hosts: 1, thinkMs: 0, killEveryMs: null, ...input, ...changes })
  }
})
