/** Places on a host, with real containers: what a request admits, what a new worker finds, what ends without being closed. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { admitSandboxes } from '../../src/activities/runtime/admit-sandboxes.ts'
import { createAdmission, listHeld } from '../../src/adapters/docker/sandbox/admission.ts'
import { removeContainer } from '../../src/adapters/docker/container/create-container.ts'
import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { SandboxHandle, SandboxHost } from '../../src/contracts/sandbox.types.ts'
import { createSandboxFixture, never, type SandboxFixture } from './sandbox-fixture.ts'

const namespaceId = `admission-${process.pid}`
const request = { cpus: 0.5, memoryMiB: 256 }

let fixture: SandboxFixture
const disposals: (() => void)[] = []

before(async () => {
  fixture = await createSandboxFixture('admission', { 'm.py': 'x = 1\n' })
})

after(async () => {
  for (const dispose of disposals) dispose()
  await fixture.dispose()
})

/** A worker's view of the host, with room for two sandboxes. */
function startWorker(): SandboxHost {
  const { engine } = fixture
  const host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test', namespaceId })
  const admission = createAdmission({
    capacity: { cpus: 1, memoryMiB: 4096 },
    list: () => listHeld({ engine, namespaceId }),
    resyncMs: 200,
  })
  disposals.push(
    () => host.dispose(),
    () => admission.dispose(),
  )
  return admitSandboxes({ host, admission, hostId: 'test-host' })
}

function open(worker: SandboxHost, index: number): Promise<SandboxHandle> {
  return worker.open(fixture.openInput({ episode: `${fixture.run}/stage/0001/task/0${index}`, request }), never)
}

const held = async (): Promise<number> => (await listHeld({ engine: fixture.engine, namespaceId })).length

test('a third sandbox waits until one of two is closed, and a new worker counts the running ones', async () => {
  const worker = startWorker()
  const first = await open(worker, 1)
  const second = await open(worker, 2)
  assert.equal(await held(), 2)

  let isThirdOpen = false
  const third = open(worker, 3).finally(() => (isThirdOpen = true))
  // The same sandbox again, as a second attempt asks for it: it has its place.
  assert.deepEqual(await open(worker, 2), second)
  assert.equal(isThirdOpen, false)
  await worker.close(first)
  await third
  assert.equal(await held(), 2)

  const later = startWorker()
  let isFourthOpen = false
  const fourth = open(later, 4).finally(() => (isFourthOpen = true))
  assert.deepEqual(await open(later, 2), second)
  assert.equal(isFourthOpen, false)
  // As the reaper or a lease ends it: without a close.
  await removeContainer({ engine: fixture.engine, name: second.name })
  await fourth
  assert.equal(await held(), 2)
})

test('sandboxes of another stack on the same engine take no place here', async () => {
  const other = `other-${process.pid}`
  assert.deepEqual(await listHeld({ engine: fixture.engine, namespaceId: other }), [])
})
