import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Pod, podDeviations, podName, podSpec } from './pod-spec.ts'

const QUESTION: Parameters<typeof podSpec>[0] = {
  input: {
    image: 'registry.example/task:1',
    limits: { cpus: 1.5, memoryMiB: 2048, pids: 64, diskGiB: 4 },
    request: { cpus: 4, memoryMiB: 512 },
  },
  name: 'lh-a',
  serves: 'pod',
  leaseMs: 60_000,
  runnerMap: 'longhaul-runner-1',
  seccompProfile: 'longhaul/runner.json',
  runtime: null,
  labels: {
    run: 'r',
    episode: 'r/e',
    role: 'agent',
    fence: 1,
    leaseMs: 60_000,
    maxLifeMs: 90_500,
    owner: 'w',
    namespaceId: 'n',
    host: 'pods-x',
    imageDigest: '',
  },
}
const ASKED = podSpec(QUESTION)

/** What an API server adds to a pod by itself. */
function stored(change: (pod: Pod) => void = () => undefined): Pod {
  const pod = structuredClone(ASKED)
  for (const field of ['hostNetwork', 'hostPID', 'hostIPC', 'shareProcessNamespace']) {
    // False is left out.
    if (pod.spec[field] === false) delete pod.spec[field]
  }
  Object.assign(pod.spec, { schedulerName: 'default-scheduler', serviceAccountName: 'default', priority: 0 })
  Object.assign(pod.spec.containers[0] ?? {}, {
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
  })
  change(pod)
  return pod
}

test('a pod as requested has no deviation, including defaults that a server adds', () => {
  assert.deepEqual(podDeviations(ASKED, stored()), [])
})

const CHANGES: [field: string, change: (pod: Pod) => void][] = [
  ['containers', ({ spec }) => spec.containers.push({ name: 'proxy', image: 'mesh' })],
  ['initContainers', ({ spec }) => (spec.initContainers = [{ name: 'init' }])],
  ['volumes', ({ spec }) => spec.volumes?.push({ name: 'token' })],
  ['hostNetwork', ({ spec }) => (spec['hostNetwork'] = true)],
  ['automountServiceAccountToken', ({ spec }) => (spec['automountServiceAccountToken'] = true)],
  ['securityContext', ({ spec }) => (spec['securityContext'] = { sysctls: [] })],
  ['containers[0].image', ({ spec }) => Object.assign(spec.containers[0] ?? {}, { image: 'mirror/task:1' })],
  ['containers[0].env', ({ spec }) => Object.assign(spec.containers[0] ?? {}, { env: [{ name: 'A', value: 'b' }] })],
  ['containers[0].volumeMounts', ({ spec }) => Object.assign(spec.containers[0] ?? {}, { volumeMounts: [] })],
  ['containers[0].securityContext', ({ spec }) => Object.assign(spec.containers[0] ?? {}, { securityContext: {} })],
  ['containers[0].resources', ({ spec }) => Object.assign(spec.containers[0] ?? {}, { resources: {} })],
]

for (const [field, change] of CHANGES) {
  test(`reports that an admission webhook changed ${field}`, () => {
    assert.deepEqual(podDeviations(ASKED, stored(change)), [field])
  })
}

test('requests do not exceed the limits, and the deadline is the longest life', () => {
  assert.deepEqual(ASKED.spec.containers[0]?.['resources'], {
    requests: { cpu: '1500m', memory: '512Mi', 'ephemeral-storage': '4Gi' },
    limits: { cpu: '1500m', memory: '2Gi', 'ephemeral-storage': '4Gi' },
  })
  assert.equal(ASKED.spec['activeDeadlineSeconds'], 91)
})

test('amounts are spelled as servers return them, also fractions and terabytes', () => {
  for (const [limits, expected] of [
    [
      { cpus: 0.0625, memoryMiB: 1023.7, diskGiB: 0.1 },
      { cpu: '63m', memory: '1Gi', 'ephemeral-storage': '102Mi' },
    ],
    [
      { cpus: 2, memoryMiB: 2 * 1024 ** 2, diskGiB: 1536 },
      { cpu: '2', memory: '2Ti', 'ephemeral-storage': '1536Gi' },
    ],
  ] as const) {
    const input = { ...QUESTION.input, limits: { ...limits, pids: 64 } }
    const resources = podSpec({ ...QUESTION, input }).spec.containers[0]?.['resources'] as { limits: object }
    assert.deepEqual(resources.limits, expected)
  }
})

test('names are valid host names, equal for equal ids and different for similar ids', () => {
  const [one, other] = [podName(['Run_1', 'a/b', 'agent', 1]), podName(['run-1', 'a/b', 'agent', 1])]
  for (const name of [one, other, podName(['x'.repeat(200)])])
    assert.match(name, /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
  assert.notEqual(one, other)
  assert.equal(one, podName(['Run_1', 'a/b', 'agent', 1]))
})
