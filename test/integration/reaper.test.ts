/**
 * The reaper against a real engine and a real server. Its rules are a table in `src/domain/orphaned-resources.test.ts`; here is what
 * depends on the two: labels as the engine keeps them, owners as the server knows them, and removal.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { LABELS, PROJECT } from '../../src/adapters/docker/container/labels.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import {
  type OwnerRegistry,
  reapOrphaned,
  resourcesOfEngine,
  type ReapReport,
} from '../../src/adapters/docker/reaper/reap-orphaned.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { LonghaulConnection } from '../../src/client/index.ts'
import type { PlacementRecord } from '../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../src/contracts/keys.ts'
import type { OpenSandboxInput } from '../../src/contracts/sandbox.types.ts'
import { createOwnerRegistry, namespaceIdOf } from '../../src/workers/workflow-owners.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { createSandboxFixture, never, type SandboxFixture, untilTrue } from './sandbox-fixture.ts'
import { HANG_MS } from '../support/hang.ts'

// Other test files, and other stacks, share the engine: a host of our own name is all that this reaper may look at.
const HOST = `reaper-${process.pid}`

let fixture: SandboxFixture
let temporal: LonghaulConnection
let namespaceId: string
let host: DockerSandboxHost
let owners: OwnerRegistry
const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const store = createDirectoryStore({ root })

before(async () => {
  if (needsServer !== false) return
  fixture = await createSandboxFixture('reaper', { 'm.py': 'x = 1\n' })
  temporal = await connectToOwnNamespace('reaper')
  const { namespace, client } = temporal
  namespaceId = (await namespaceIdOf(client.connection, namespace)) ?? ''
  owners = createOwnerRegistry({ connection: client.connection, namespace, store })
  host = hostOf(namespaceId)
})

after(async () => {
  host?.dispose()
  await temporal?.close()
  await fixture?.dispose()
  rmSync(root, { recursive: true })
})

function hostOf(id: string, hostId = HOST, maxLifeMs = 3_600_000): DockerSandboxHost {
  return createDockerSandboxHost({ engine: fixture.engine, hostId, hostQueue: 'q', namespaceId: id, maxLifeMs })
}

/** A workflow on a queue without workers: it stays open until the test terminates it. */
async function startOwner(): Promise<{ owner: string; ownerRun: string; end(): Promise<unknown> }> {
  const workflowId = `owner-${randomUUID()}`
  const handle = await temporal.client.workflow.start('episode', { workflowId, taskQueue: 'no-worker', args: [{}] })
  return { owner: workflowId, ownerRun: handle.firstExecutionRunId, end: () => handle.terminate('test') }
}

let episodes = 0
function openInput(changes: Partial<OpenSandboxInput>): OpenSandboxInput {
  episodes += 1
  return fixture.openInput({ episode: `${fixture.run}/stage/0001/task/${episodes}`, ...changes })
}

function reap(changes: Partial<Parameters<typeof reapOrphaned>[0]> = {}): Promise<ReapReport> {
  const reaper = { host: HOST, namespaceId }
  return reapOrphaned({
    holder: resourcesOfEngine(fixture.engine),
    reaper,
    owners,
    signal: AbortSignal.timeout(HANG_MS),
    ...changes,
  })
}

/** Why each of ours was removed or kept, by name. */
function reasons({ removed, kept, failed }: ReapReport, names: string[]): (string | null)[] {
  assert.deepEqual(failed, [])
  return names.map((name) => {
    const gone = removed.find((thing) => thing.name === name)
    const left = kept.find((thing) => thing.name === name)
    return gone !== undefined ? `removed ${gone.why}` : left !== undefined ? `kept ${left.why}` : null
  })
}

test('the server decides about owners, and only for its own namespace and host', {
  skip: needsServer,
}, async () => {
  const [running, ended] = await Promise.all([startOwner(), startOwner()])
  const elsewhere = hostOf('another-servers-namespace')
  const farAway = hostOf(namespaceId, `${HOST}-other`)
  const opened = await Promise.all([
    host.open(openInput(running), never),
    host.open(openInput(ended), never),
    host.open(openInput({ owner: 'never-started', ownerRun: 'x' }), never),
    elsewhere.open(openInput({ owner: 'never-started', ownerRun: 'x' }), never),
    farAway.open(openInput({ owner: 'never-started', ownerRun: 'x' }), never),
  ])
  await ended.end()
  const names = opened.map(({ name }) => name)
  const expected = [
    'kept owner-runs',
    'removed owner-closed',
    'removed owner-unknown',
    'kept other-stack',
    'kept other-host',
  ]

  assert.deepEqual(reasons(await reap({ isDryRun: true }), names), expected)
  assert.equal((await listSandboxes({ engine: fixture.engine, run: fixture.run })).length, 5)
  assert.deepEqual(reasons(await reap(), names), expected)
  const left = (await listSandboxes({ engine: fixture.engine, run: fixture.run })).map(({ name }) => name)
  assert.deepEqual(new Set(left), new Set([names[0], names[3], names[4]]))

  elsewhere.dispose()
  farAway.dispose()
  await Promise.all(opened.map((sandbox) => host.close(sandbox)))
})

test('only containers past their maximum life are removed while the server is away', {
  skip: needsServer,
}, async () => {
  const shortLived = hostOf(namespaceId, HOST, 1)
  const young = await host.open(openInput({ owner: 'unknown-owner' }), never)
  const old = await shortLived.open(openInput({ owner: 'unknown-owner' }), never)
  shortLived.dispose()
  const deaf: OwnerRegistry = { stateOf: async () => null, hasPlacementAfter: async () => false }
  assert.deepEqual(reasons(await reap({ owners: deaf }), [young.name, old.name]), [
    'kept owner-unanswered',
    'removed past-max-life',
  ])
  await host.close(young)
})

test('an owner registry without its server answers unknown instead of an error', {
  skip: needsServer,
}, async () => {
  const gone = await connectToOwnNamespace('gone')
  const registry = createOwnerRegistry({ connection: gone.client.connection, namespace: gone.namespace, store })
  await gone.close()
  assert.equal(await registry.stateOf('any', never), null)
  assert.equal(await namespaceIdOf(gone.client.connection, gone.namespace), null)
})

test('removes the older container of an episode that was placed again on this or another host', {
  skip: needsServer,
}, async () => {
  const here = await startOwner()
  const away = await startOwner()
  const input = openInput(here)
  const older = await host.open(input, never)
  const newer = await host.open({ ...input, placement: 2 }, never)
  const moved = openInput(away)
  const left = await host.open(moved, never)
  await store.claimRecord<PlacementRecord>(episodeKeys.placement(moved.episode, 2), {
    schema: 'longhaul.placement/1',
    episode: moved.episode,
    placement: 2,
    ownerRun: away.ownerRun,
    hostId: 'another',
    image: moved.image,
    placedAtMs: 1,
  })
  assert.deepEqual(reasons(await reap(), [older.name, newer.name, left.name]), [
    'removed superseded',
    'kept owner-runs',
    'removed superseded',
  ])
  await host.close(newer)
})

test('keeps both placements of an older execution, because the newer one may have adopted either', {
  skip: needsServer,
}, async () => {
  const { owner } = await startOwner()
  const input = openInput({ owner, ownerRun: randomUUID() })
  const first = await host.open(input, never)
  const second = await host.open({ ...input, placement: 2 }, never)
  assert.deepEqual(reasons(await reap(), [first.name, second.name]), ['kept owner-runs', 'kept owner-runs'])
  await Promise.all([host.close(first), host.close(second)])
})

test('removes a container that ended by its lease and keeps a killed one until the lease ends', {
  skip: needsServer,
}, async () => {
  const running = await startOwner()
  const idle = await host.open(openInput({ ...running, leaseMs: 2000 }), never)
  const killed = await host.open(openInput(running), never)
  const docker = fixture.engine.docker
  await docker.getContainer(killed.name).kill()
  // The dead-man switch ends it.
  await untilTrue(async () => !(await docker.getContainer(idle.name).inspect()).State.Running)
  const names = [idle.name, killed.name]
  assert.deepEqual(reasons(await reap(), names), ['removed lease-over', 'kept owner-runs'])
  const later = Date.now() + 121_000
  assert.deepEqual(reasons(await reap({ now: later }), names), [null, 'removed lease-over'])
})

test('removes anonymous volumes with their container, labelled networks and volumes with their owner, and no others', {
  skip: needsServer,
}, async () => {
  const { docker } = fixture.engine
  const labels = (changes: Record<string, string>) => ({
    [LABELS.project]: PROJECT,
    [LABELS.host]: HOST,
    [LABELS.namespaceId]: namespaceId,
    [LABELS.owner]: 'never-started',
    [LABELS.created]: String(Date.now()),
    ...changes,
  })
  const name = (what: string): string => `lh-stray-${what}-${process.pid}`
  const container = await docker.createContainer({
    name: name('container'),
    Image: fixture.image,
    Cmd: ['sleep', '600'],
    Labels: labels({}),
    Volumes: { '/data': {} },
    HostConfig: { NetworkMode: 'none' },
  })
  await container.start()
  const [mount] = (await container.inspect()).Mounts
  assert.ok(mount?.Name !== undefined)
  await docker.createVolume({ Name: name('volume'), Labels: labels({}) })
  await docker.createVolume({ Name: name('foreign'), Labels: labels({ [LABELS.namespaceId]: 'another' }) })
  await docker.createVolume({ Name: name('unlabelled') })
  await docker.createNetwork({ Name: name('network'), Internal: true, Labels: labels({}) })
  const before = new Set((await docker.listVolumes()).Volumes.map((volume) => volume.Name))
  try {
    const report = await reap()
    const names = ['container', 'network', 'volume', 'foreign', 'unlabelled'].map(name)
    assert.deepEqual(reasons(report, names), [
      'removed owner-unknown',
      'removed owner-unknown',
      'removed owner-unknown',
      'kept other-stack',
      null,
    ])
    assert.deepEqual(await docker.listNetworks({ filters: { name: [name('network')] } }), [])
    const left = new Set((await docker.listVolumes()).Volumes.map((volume) => volume.Name))
    assert.deepEqual([...before].filter((name) => !left.has(name)).toSorted(), [mount.Name, name('volume')].toSorted())
  } finally {
    await docker.getVolume(name('foreign')).remove()
    await docker.getVolume(name('unlabelled')).remove()
  }
})

test('two concurrent reapers of one host remove everything without a failure', { skip: needsServer }, async () => {
  const opened = await Promise.all(Array.from({ length: 4 }, () => host.open(openInput({ owner: 'no-owner' }), never)))
  const reports = await Promise.all([reap(), reap()])
  assert.deepEqual(
    reports.flatMap(({ failed }) => failed),
    [],
  )
  const removed = new Set(reports.flatMap((report) => report.removed.map(({ name }) => name)))
  for (const { name } of opened) assert.ok(removed.has(name))
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})

test('longhaul reap applies the same rules to the named host', { skip: needsServer }, async () => {
  const orphan = await host.open(openInput({ owner: 'no-owner' }), never)
  const longhaul = async (...args: string[]) => {
    const env = { ...process.env, LONGHAUL_NAMESPACE: temporal.namespace }
    const command = ['bin/longhaul.mjs', 'reap', '--host', HOST, '--json', ...args]
    const { stdout } = await promisify(execFile)(process.execPath, command, { env })
    return JSON.parse(stdout) as ReapReport & { host: string; dryRun: boolean }
  }
  const dry = await longhaul('--dry-run')
  assert.deepEqual([dry.host, dry.dryRun, reasons(dry, [orphan.name])], [HOST, true, ['removed owner-unknown']])
  assert.equal((await listSandboxes({ engine: fixture.engine, run: fixture.run })).length, 1)
  assert.deepEqual(reasons(await longhaul(), [orphan.name]), ['removed owner-unknown'])
  assert.deepEqual(await listSandboxes({ engine: fixture.engine, run: fixture.run }), [])
})
