import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LABELS, PROJECT } from '../docker/container/labels.ts'
import { reapOrphaned } from '../docker/reaper/reap-orphaned.ts'
import { ClusterRefusal } from './cluster-errors.ts'
import type { Cluster, ClusterRequest } from './cluster.ts'
import { deletePod, resourcesOfCluster } from './list-pods.ts'
import type { Pod, PodStatus } from './pod-spec.ts'

const NOW = Date.parse('2026-11-25T12:00:00Z')
const MINUTE = 60_000
const OWNER = { owner: 'train/r/ep', ownerRun: 'run-1' }

/** A pod of an episode that plays, with a lease of ten minutes. */
function podOf(ageMs: number, status: PodStatus): Pod {
  const annotations = {
    [LABELS.project]: PROJECT,
    [LABELS.role]: 'agent',
    [LABELS.namespaceId]: 'ours',
    [LABELS.owner]: OWNER.owner,
    [LABELS.ownerRun]: OWNER.ownerRun,
    [LABELS.created]: String(NOW - ageMs),
    [LABELS.leaseMs]: String(10 * MINUTE),
  }
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', annotations }, spec: { containers: [] }, status }
}

async function removed(pod: Pod): Promise<string[]> {
  const cluster = { pathOf: () => '/', ask: async () => ({ items: [pod] }) } as unknown as Cluster
  const report = await reapOrphaned({
    holder: resourcesOfCluster(cluster),
    reaper: { host: '', namespaceId: 'ours' },
    owners: {
      stateOf: async () => ({ kind: 'running', runId: OWNER.ownerRun }),
      hasPlacementAfter: async () => false,
    },
    isDryRun: true,
    now: NOW,
    signal: new AbortController().signal,
  })
  return report.removed.map(({ why }) => why)
}

const PULLING: PodStatus = {
  phase: 'Pending',
  containerStatuses: [{ state: { waiting: { reason: 'ContainerCreating' } } }],
}

/** The story: the image of a task has six gigabytes, and its pull outlasts the lease of the sandbox that waits for it. */
test('a pod whose image is pulled for longer than a lease is kept until the limit of its start', async () => {
  assert.deepEqual(await removed(podOf(29 * MINUTE, PULLING)), [])
  assert.deepEqual(await removed(podOf(31 * MINUTE, PULLING)), ['never-started'])
})

test('a pod that has ended is removed after its lease', async () => {
  const terminated = { exitCode: 137, reason: 'Error', finishedAt: new Date(NOW - 11 * MINUTE).toISOString() }
  const status: PodStatus = { phase: 'Failed', containerStatuses: [{ state: { terminated } }] }
  assert.deepEqual(await removed(podOf(29 * MINUTE, status)), ['lease-over'])
})

test('the pod of a later attempt, which has the name of the earlier one, stays when that one is deleted', async () => {
  const asked: ClusterRequest[] = []
  const cluster = {
    pathOf: () => '/',
    ask: async (request: ClusterRequest) => {
      asked.push(request)
      throw new ClusterRefusal(409, '{"reason":"Conflict"}')
    },
  } as unknown as Cluster
  await deletePod(cluster, 'p', { only: 'uid-1' })
  const [{ body } = { body: {} }] = asked
  assert.deepEqual((body as { preconditions?: object }).preconditions, { uid: 'uid-1' })
  await assert.rejects(deletePod(cluster, 'p'), ClusterRefusal)
})
