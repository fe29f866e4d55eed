import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { writtenFolderOf } from '../../src/adapters/docker/container/written-folder.ts'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { imageDigest, imageExists } from '../../src/adapters/docker/images/images.ts'
import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { type SandboxFixture, codeOf, createPlayer, createSandboxFixture, never, untilTrue } from './sandbox-fixture.ts'

let fixture: SandboxFixture

before(async () => {
  fixture = await createSandboxFixture('containers', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

test('an unreachable engine fails as Sandbox.EngineUnavailable and names the address', async () => {
  await assert.rejects(connectEngine({ host: 'unix:///nowhere/docker.sock' }), (error: Error) => {
    assert.equal(codeOf(error), 'Sandbox.EngineUnavailable')
    assert.match(error.message, /unix:\/\/\/nowhere\/docker.sock/)
    return true
  })
})

test('a task image exists with its digest, and an unknown name does not', async () => {
  const { engine, image } = fixture
  assert.equal(await imageExists({ engine, image }), true)
  assert.match((await imageDigest({ engine, image })) ?? '', /^sha256:[0-9a-f]{64}$/)
  assert.equal(await imageDigest({ engine, image: 'longhaul-test/never-built:1' }), null)
  // A label of ours in the image would mark every container of it as ours to remove.
  const { Config: config } = await engine.docker.getImage(image).inspect()
  assert.equal(config.Labels['longhaul.project'], '')
})

test('an agent container without a network has its loopback up and resolves localhost', async () => {
  const sandbox = await fixture.host.open(fixture.openInput(), never)
  const server =
    's = socket.create_server(("localhost", 0)); c = socket.create_connection(s.getsockname()); print("talks")'
  const { text } = await createPlayer(fixture.host, sandbox).play(`python3 -c 'import socket; ${server}'`, {
    turn: 90,
    token: 'loopback',
  })
  assert.equal(text, 'talks\n')
})

test('opening a placement again, also from another host, adopts the container with its work', async () => {
  const first = await fixture.host.open(fixture.openInput(), never)
  await createPlayer(fixture.host, first).play(
    'echo here > /tmp/mark; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x',
    { turn: 91, token: 'mark', after: { turn: 90, token: 'loopback' } },
  )
  const again = await fixture.host.open(fixture.openInput(), never)
  const other = createDockerSandboxHost({ engine: fixture.engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  try {
    const foreign = await other.open(fixture.openInput(), never)
    assert.deepEqual([again, foreign], [first, first])
    const request = { turn: 92, token: 'read', after: { turn: 91, token: 'mark' } }
    assert.equal((await createPlayer(other, foreign).play('cat /tmp/mark', request)).text, 'here\n')
  } finally {
    other.dispose()
  }
})

// Engines with containerd's image store, as fresh ones from 29, say nothing about it, and no limit of the disk was kept there.
test('what a container writes is found without the engine’s word, also after its end, and not by a stranger’s PID', async () => {
  const { engine, host } = fixture
  const sandbox = await host.open(fixture.openInput({ placement: 60 }), never)
  await createPlayer(host, sandbox).play('echo witness > m.py', { turn: 0, token: 'witness' })
  const container = engine.docker.getContainer(sandbox.name)
  const facts = await container.inspect()
  const silent = { ...facts, GraphDriver: undefined as never }
  const folder = (await writtenFolderOf(engine, silent)) ?? ''
  assert.equal(await readFile(join(folder, 'testbed/m.py'), 'utf8'), 'witness\n')
  const reported = (facts.GraphDriver as { Data?: { UpperDir?: string } | null } | undefined)?.Data?.UpperDir
  assert.equal(reported ?? folder, folder)

  const ended = { ...silent, State: { ...facts.State, Running: false, Pid: 0 } }
  assert.equal(await writtenFolderOf(engine, ended), folder)
  const elsewhere = { ...silent, Id: 'f'.repeat(64), State: { ...facts.State, Pid: process.pid } }
  assert.equal(await writtenFolderOf(engine, elsewhere), undefined)
  const another = { ...silent, Id: 'f'.repeat(64) }
  assert.equal(await writtenFolderOf(engine, another), undefined)
})

test('two concurrent attempts to open one placement get one container and one handle', async () => {
  const input = fixture.openInput({ placement: 3 })
  const [one, two] = await Promise.all([fixture.host.open(input, never), fixture.host.open(input, never)])
  assert.deepEqual(one, two)
  await fixture.host.close(one)
})

test('refuses a container with other labels under the name and leaves it alone', async () => {
  const { engine } = fixture
  const name = `lh-${fixture.run}-stage-0001-task-00-agent-4`
  const foreign = await engine.docker.createContainer({
    name,
    Image: fixture.image,
    Cmd: ['/bin/true'],
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    const opening = fixture.host.open(fixture.openInput({ placement: 4 }), never)
    await assert.rejects(opening, (error) => codeOf(error) === 'Sandbox.JournalConflict')
    await assert.doesNotReject(foreign.inspect())
  } finally {
    await foreign.remove({ force: true })
  }
})

test('a container whose lease no host renews ends itself, and turns report it as lost', async () => {
  const sandbox = await fixture.host.open(fixture.openInput({ placement: 5, leaseMs: 3000 }), never)
  await untilTrue(async () => !(await fixture.engine.docker.getContainer(sandbox.name).inspect()).State.Running)
  const late = createPlayer(fixture.host, sandbox).play('true')
  await assert.rejects(late, (error) => codeOf(error) === 'Sandbox.Lost')
  await assert.rejects(
    fixture.host.open(fixture.openInput({ placement: 5, leaseMs: 3000 }), never),
    (error) => codeOf(error) === 'Sandbox.Lost',
  )
  await fixture.host.close(sandbox)
})

test('a turn longer than the lease keeps its sandbox', async () => {
  const sandbox = await fixture.host.open(fixture.openInput({ placement: 6, leaseMs: 3000 }), never)
  const { text } = await createPlayer(fixture.host, sandbox).play('sleep 6; echo still here')
  assert.equal(text, 'still here\n')
  await fixture.host.close(sandbox)
})

test('renewals without a turn keep the sandbox beyond two leases', async () => {
  const sandbox = await fixture.host.open(fixture.openInput({ placement: 8, leaseMs: 3000 }), never)
  for (let second = 0; second < 8; second += 1) {
    await sleep(1000)
    await fixture.host.renew(sandbox, never)
  }
  assert.equal((await createPlayer(fixture.host, sandbox).play('echo still here')).text, 'still here\n')
  await fixture.host.close(sandbox)
})

test('an image without a repository fails as Sandbox.ImageUnsuitable', async () => {
  const opening = fixture.host.open(fixture.openInput({ placement: 7, repoDir: '/usr' }), never)
  await assert.rejects(opening, (error) => codeOf(error) === 'Sandbox.ImageUnsuitable')
})
