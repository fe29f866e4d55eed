/** What a cluster says of a pod, in the words that API servers and kubelets use, and whose doing its end was. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pod, PodStatus } from './pod-spec.ts'
import { blockOf, endOf, isNodeLost, isRunning, isTakenAway } from './pod-state.ts'

function pod(status: PodStatus, metadata: Partial<Pod['metadata']> = {}): Pod {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', ...metadata }, spec: { containers: [] }, status }
}

function terminated(exitCode: number, reason: string, finishedAt = '2026-11-25T12:00:00Z'): PodStatus {
  return {
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    containerStatuses: [{ state: { terminated: { exitCode, reason, finishedAt } } }],
  }
}

const DISRUPTED = { conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'PreemptionByScheduler' }] }
const DISK = 'Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. '
const NODE_DISK = 'The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. '

const ENDS: [what: string, found: Pod, code: string][] = [
  ['the first process was killed for memory', pod(terminated(137, 'OOMKilled')), 'Sandbox.Ended'],
  ['the first process ended with an error', pod(terminated(77, 'Error')), 'Sandbox.Ended'],
  ['the lease ran out', pod(terminated(0, 'Completed')), 'Sandbox.Lost'],
  ['the kernel refuses the jail', pod(terminated(70, 'Error')), 'Sandbox.Unsafe'],
  ['the node restarted', pod(terminated(255, 'Unknown')), 'Sandbox.Lost'],
  ['the node has lost track of it', pod(terminated(137, 'ContainerStatusUnknown')), 'Sandbox.Lost'],
  ['preempted', pod({ ...terminated(137, 'Error'), ...DISRUPTED }), 'Sandbox.Lost'],
  ['deleted', pod(terminated(137, 'Error'), { deletionTimestamp: '2026-11-25T12:00:00Z' }), 'Sandbox.Lost'],
  ['past its deadline', pod({ phase: 'Failed', reason: 'DeadlineExceeded' }), 'Sandbox.Lost'],
  ['evicted by a node in need', pod({ phase: 'Failed', reason: 'Evicted', message: NODE_DISK }), 'Sandbox.Lost'],
  ['evicted for what it wrote', pod({ phase: 'Failed', reason: 'Evicted', message: DISK }), 'Sandbox.DiskLimit'],
]

for (const [what, found, code] of ENDS) {
  test(`${what}: ${code}`, () => {
    assert.equal(isRunning(found), false)
    assert.equal(endOf(found, { name: 'p', cause: null, askedMs: null }).code, code)
  })
}

test('a runner that exits with 0 during a request ended from inside and not by its lease', () => {
  const askedMs = Date.parse('2026-11-25T11:59:00Z')
  assert.equal(endOf(pod(terminated(0, 'Completed')), { name: 'p', cause: null, askedMs }).code, 'Sandbox.Ended')
})

test('a running pod is removed when it is deleted or disrupted, and lost with a node that is not ready', () => {
  const running = { phase: 'Running', containerStatuses: [{ state: { running: {} } }] } as const
  const ready = (status: string): PodStatus => ({
    ...running,
    containerStatuses: [...running.containerStatuses],
    conditions: [{ type: 'Ready', status }],
  })
  assert.deepEqual([isRunning(pod(ready('True'))), isNodeLost(pod(ready('True')))], [true, false])
  assert.equal(isNodeLost(pod(ready('False'))), true)
  assert.equal(isTakenAway(pod({ ...ready('True'), ...DISRUPTED })), true)
  assert.equal(isRunning(pod({ ...ready('True'), ...DISRUPTED })), false)
})

function waiting(reason: string, message = ''): Pod {
  return pod({ phase: 'Pending', containerStatuses: [{ state: { waiting: { reason, message } } }] })
}

const BLOCKS: [what: string, found: Pod, kind: string | undefined, code: string | undefined][] = [
  ['being created', waiting('ContainerCreating'), undefined, undefined],
  ['a registry that has no such image', waiting('ErrImagePull', 'rpc: not found'), 'failed', 'Sandbox.ImageMissing'],
  ['a registry that stumbled', waiting('ErrImagePull', 'connection reset'), undefined, undefined],
  ['a registry that stays away', waiting('ImagePullBackOff', 'connection reset'), 'failed', 'Sandbox.PullFailed'],
  ['a name that is none', waiting('InvalidImageName'), 'failed', 'Sandbox.ImageMissing'],
  [
    'a profile that the node lacks',
    waiting('CreateContainerError', 'cannot load seccomp profile "/x": no such file'),
    'failed',
    'Sandbox.EngineUnavailable',
  ],
  [
    'no room',
    pod({
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'False', message: '0/1 nodes: Insufficient cpu' }],
    }),
    'waits',
    'Sandbox.EngineUnavailable',
  ],
]

for (const [what, found, kind, code] of BLOCKS) {
  test(`a pod that does not run yet, ${what}: ${kind ?? 'it may still start'}`, () => {
    const block = blockOf(found, 'image:1')
    assert.deepEqual([block?.kind, block?.error.code], [kind, code])
  })
}
