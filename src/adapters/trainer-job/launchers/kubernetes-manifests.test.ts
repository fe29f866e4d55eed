import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeStrictly, withoutGo } from '../../../../test/support/kubernetes-types.ts'
import { exampleAttempt, exampleOptions } from '../../../../test/support/launcher-examples.ts'
import { runInSpan } from '../../../platform/current-trace.ts'
import { jobNetworkPolicy, kubernetesManifest } from './kubernetes-manifests.ts'

const examples = join(import.meta.dirname, '../../../../infra/kubernetes')
const one = kubernetesManifest({ options: exampleOptions, attempt: exampleAttempt({ nodes: 1, ranksPerNode: 8 }) })
const sixteen = kubernetesManifest({ options: exampleOptions, attempt: exampleAttempt({ nodes: 16, ranksPerNode: 8 }) })
const [alone, together] = [1, 16].map((nodes) =>
  jobNetworkPolicy({ options: exampleOptions, attempt: exampleAttempt({ nodes, ranksPerNode: 8 }) }),
) as [Manifest, Manifest]
type Manifest = Record<string, unknown>

test('the examples in infra/kubernetes equal what the launcher submits', async () => {
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'job.json'), 'utf8')), one)
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'jobset.json'), 'utf8')), sixteen)
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'network-policy.json'), 'utf8')), alone)
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'network-policy-jobset.json'), 'utf8')), together)
})

test('the types of Kubernetes and JobSet know every field of a manifest', { skip: withoutGo }, async () => {
  const misspelt = { ...one, spec: { ...(one['spec'] as object), backofLimit: 0 } }
  const mistyped = { ...one, spec: { ...(one['spec'] as object), completions: 'one' } }
  const misnamed = { ...alone, spec: { ...(alone['spec'] as object), policyType: ['Ingress'] } }
  const answers = await decodeStrictly([one, sixteen, misspelt, mistyped, alone, together, misnamed])
  assert.deepEqual(answers.slice(0, 2), ['ok', 'ok'])
  assert.deepEqual(answers.slice(4, 6), ['ok', 'ok'])
  assert.match(answers[6] ?? '', /unknown field "(spec\.)?policyType"/)
  assert.match(answers[2] ?? '', /unknown field "spec\.backofLimit"|unknown field "backofLimit"/)
  assert.match(answers[3] ?? '', /cannot unmarshal string/)
})

test('several nodes meet at the first pod, each with its own rank', () => {
  const spec = JSON.stringify(sixteen)
  assert.match(spec, /--master-addr=longhaul-dapo-0123456789abcdef-node-0-0\.longhaul-dapo-0123456789abcdef"/)
  assert.match(spec, /--node-rank=\$\(JOB_COMPLETION_INDEX\)/)
  assert.match(spec, /"--nnodes=16","--nproc-per-node=8","--max-restarts=0","--log-dir=\/dev\/null"/)
})

test('a pod has no root or new privileges, writes only to its volumes and uses the runtime’s seccomp profile', () => {
  for (const manifest of [one, sixteen]) {
    const { securityContext: pod, containers, automountServiceAccountToken } = podOf(manifest)
    assert.deepEqual(
      [pod.runAsNonRoot, pod.runAsUser, pod.runAsGroup, pod.seccompProfile],
      [true, 1000, 1000, { type: 'RuntimeDefault' }],
    )
    assert.equal(automountServiceAccountToken, false)
    for (const { securityContext } of containers) {
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
    }
  }
})

test('the time limit of a job starts on its node and excludes the queue', () => {
  for (const manifest of [one, sixteen]) {
    assert.equal((podOf(manifest) as unknown as Record<string, unknown>)['activeDeadlineSeconds'], 43_230)
    assert.equal(
      JSON.stringify(manifest).split('activeDeadlineSeconds').length,
      2,
      'the limit must not be one of the Job',
    )
  }
})

test('only ranks of one job can connect to each other, and a single node has no open port', () => {
  const ofJob = { podSelector: { matchLabels: { 'longhaul/job': 'dapo-0123456789abcdef' } } }
  assert.deepEqual(alone['spec'], { ...ofJob, policyTypes: ['Ingress', 'Egress'], ingress: [], egress: [] })
  const { ingress, egress, podSelector } = together['spec'] as Record<string, unknown>
  assert.deepEqual(ingress, [{ from: [ofJob] }])
  assert.deepEqual((egress as object[])[0], { to: [ofJob] })
  assert.deepEqual((egress as { ports?: object[] }[])[1]?.ports, [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ])
  // The policy selects the pods that the manifest makes.
  const { matchLabels } = podSelector as { matchLabels: Record<string, string> }
  for (const manifest of [one, sixteen]) {
    for (const [label, value] of Object.entries(matchLabels)) assert.equal(labelsOfPods(manifest)[label], value)
  }
})

interface Pod {
  securityContext: Record<string, unknown>
  containers: { securityContext: unknown }[]
  automountServiceAccountToken: boolean
}

function podTemplate(manifest: Manifest): { metadata: { labels: Record<string, string> }; spec: Pod } {
  interface Job {
    template: { metadata: { labels: Record<string, string> }; spec: Pod }
  }
  const spec = manifest['spec'] as Job & { replicatedJobs?: { template: { spec: Job } }[] }
  return spec.replicatedJobs?.[0]?.template.spec.template ?? spec.template
}

const podOf = (manifest: Manifest): Pod => podTemplate(manifest).spec
const labelsOfPods = (manifest: Manifest) => podTemplate(manifest).metadata.labels

test('a job that is launched within a trace has the trace in its environment', () => {
  const context = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
  const attempt = exampleAttempt({ nodes: 1, ranksPerNode: 8 })
  const traced = runInSpan({ context, note: () => undefined }, () =>
    kubernetesManifest({ options: exampleOptions, attempt }),
  )
  const value = `00-${context.traceId}-${context.spanId}-01`
  assert.ok(JSON.stringify(traced).includes(JSON.stringify({ name: 'TRACEPARENT', value })))
  assert.ok(!JSON.stringify(one).includes('TRACEPARENT'))
})
