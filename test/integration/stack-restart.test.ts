/**
 * The story: every process of a stack is killed while its sandboxes live on in the engine. `longhaul up` used to remove them before it started
 * new workers, so each open episode began again in a new container, with all of its commands. They are what the next workers go on in.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { useEnvironment, withoutStack } from '../support/environment.ts'
import { LABELS } from '../../src/adapters/docker/container/labels.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { isStatus } from '../../src/adapters/docker/engine/engine-errors.ts'
import { signalGroup, waitUntilGone } from '../../src/platform/processes.ts'
import { down } from '../../src/stack/down.ts'
import { stackHostId } from '../../src/stack/environment.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { readStackRecord } from '../../src/stack/stack-record.ts'
import { attachWorld, needsStack } from '../support/pipeline-world.ts'
import { startStack } from '../support/start-stack.ts'

test('up after a killed stack leaves the sandboxes to the next workers, and down removes them', {
  skip: needsStack,
}, async (t) => {
  const world = await attachWorld()
  const { engine } = world
  const home = mkdtempSync(join(tmpdir(), 'longhaul-restart-'))
  const name = `restart-${process.pid}`
  // A server of its own, so that its worker takes no sandbox of the stack that the tests share.
  useEnvironment(t, { ...withoutStack(), DOCKER_HOST: engine.host, LONGHAUL_POLICY_URL: 'http://127.0.0.1:9' })
  const start = () => startStack({ name, home, roles: ['sandbox'], policyServer: false, quiet: true })
  try {
    const stack = await start()
    const cacheDir = join(stackPaths().cacheDir, 'images')
    const { tag } = await ensureBaseImage({ engine, cacheDir, log: () => undefined })
    // No label of the project: the reaper judges owners, and this one has none.
    const sandbox = await engine.docker.createContainer({
      Image: tag,
      Cmd: ['sleep', '600'],
      Labels: { [LABELS.host]: stackHostId(name) },
      HostConfig: { NetworkMode: 'none' },
    })
    const isThere = (): Promise<boolean> =>
      sandbox.inspect().then(
        () => true,
        (error: unknown) => {
          if (isStatus(error, 404)) return false
          throw error
        },
      )
    const record = await readStackRecord(stackPaths({ name, home }).recordFile)
    assert.ok(record !== null)
    const processes = [record.supervisor, ...record.services.flatMap(({ process: one }) => (one === null ? [] : [one]))]
    for (const one of processes) signalGroup(one, 'SIGKILL')
    assert.ok(processes.length >= 3, 'supervisor, server, worker')
    for (const identity of processes) assert.ok(await waitUntilGone({ identity, timeoutMs: 10_000 }))

    await start()
    assert.equal(await isThere(), true, 'up keeps it')
    await stack.stop()
    assert.equal(await isThere(), false, 'down removes it')
  } finally {
    await down({ name, home })
    await world.close()
    rmSync(home, { recursive: true, force: true })
  }
})
