/**
 * A launcher looks at its container and is suspended. Meanwhile the attempt ends, and the next one takes over the name. When the
 * launcher goes on, it stopped the container of that name, which trains under the newer fence.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { createDockerLauncher } from '../../src/adapters/trainer-job/launchers/docker-launcher.ts'
import { claimJob, writeWaitingTrainer } from '../support/left-jobs.ts'

const root = await mkdtemp(join(tmpdir(), 'docker-stop-race-'))
after(() => rm(root, { recursive: true, force: true }))

test('a launcher that was suspended before its stop spares the container of the newer attempt', async (t) => {
  const python = join(root, 'python')
  await writeWaitingTrainer(python)
  const engine = await connectEngine()
  const cacheDir = join(stackPaths().cacheDir, 'images')
  const { tag: image } = await ensureBaseImage({ engine, cacheDir, log: console.error })
  const options = { image, python, mounts: [root], gpus: false, shmGiB: 1 }
  const launcher = createDockerLauncher({ options, command: { python } })
  const first = await claimJob(createDirectoryStore({ root: join(root, 'store') }), 'raced')
  const second = { ...first, fence: 2 }
  const name = `longhaul-${first.job.jobId}`
  t.after(() => engine.docker.getContainer(name).remove({ force: true, v: true }))
  await launcher.launch(first)

  let isSuspended = false
  const suspended = createDockerLauncher({
    options,
    command: { python },
    async connect() {
      const own = await connectEngine()
      const getContainer = own.docker.getContainer.bind(own.docker)
      own.docker.getContainer = (id) => {
        const container = getContainer(id)
        const inspect = container.inspect.bind(container)
        container.inspect = (async () => {
          const found = await inspect()
          if (!isSuspended) {
            isSuspended = true
            await engine.docker.getContainer(name).kill()
            await launcher.launch(second)
          }
          return found
        }) as typeof container.inspect
        return container
      }
      return own
    },
  })
  assert.equal(await suspended.stop(first, 1_000), true)
  assert.deepEqual(await launcher.look(second), { kind: 'alive' })
})
