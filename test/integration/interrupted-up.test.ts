/**
 * `up` starts a supervisor that outlives it, then waits. A Ctrl-C in that wait came before the supervisor had recorded itself: `up` found
 * no record, so nothing to stop, and the whole stack went on without anybody who had asked for it, on ports that were free again for others.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { listProcesses } from '../../src/platform/processes.ts'
import { down } from '../../src/stack/down.ts'
import { emptyBoard } from '../../src/stack/steps.ts'
import { up } from '../../src/stack/up.ts'
import { useEnvironment, withoutStack } from '../support/environment.ts'

test('an interrupt while the stack starts leaves no process, whatever it waits for, and the next up starts it', async (t) => {
  const { name, home } = await place(t)
  const processes = () => listProcesses().filter(({ command }) => command.includes(home))
  for (const awaited of ['the supervisor', 'temporal']) {
    const interrupt = new AbortController()
    const reason = new Error('Ctrl-C')
    const board = emptyBoard()
    Object.defineProperty(board, 'waiting', {
      set: (what: string) => {
        if (what === awaited) interrupt.abort(reason)
      },
      get: () => '',
    })
    const starting = up({ ...parts(name, home), board, signal: interrupt.signal })
    await assert.rejects(starting, (error) => error === reason)
    assert.deepEqual(processes(), [], awaited)
  }
  const { changed, stack } = await up(parts(name, home))
  assert.deepEqual([changed, stack.services.map(({ state }) => state)], [true, ['ready']])
  await down({ name, home })
  assert.deepEqual(processes(), [])
})

const parts = (name: string, home: string) => ({
  name,
  home,
  roles: [],
  policyServer: false,
  log: () => undefined,
})

async function place(t: TestContext): Promise<{ name: string; home: string }> {
  const home = await mkdtemp(join(tmpdir(), 'interrupted-up-'))
  useEnvironment(t, withoutStack())
  const name = 'interrupted'
  t.after(async () => {
    await down({ name, home })
    await rm(home, { recursive: true, force: true, maxRetries: 3 })
  })
  return { name, home }
}
