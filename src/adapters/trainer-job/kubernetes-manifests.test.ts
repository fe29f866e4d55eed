import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeStrictly, withoutGo } from '../../../test/support/kubernetes-types.ts'
import { exampleAttempt, exampleOptions } from '../../../test/support/launcher-examples.ts'
import { kubernetesManifest } from './kubernetes-manifests.ts'

const examples = join(import.meta.dirname, '../../../infra/kubernetes')
const one = kubernetesManifest({ options: exampleOptions, attempt: exampleAttempt({ nodes: 1, ranksPerNode: 8 }) })
const sixteen = kubernetesManifest({ options: exampleOptions, attempt: exampleAttempt({ nodes: 16, ranksPerNode: 8 }) })

test('the examples in infra/kubernetes are what the launcher submits', async () => {
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'job.json'), 'utf8')), one)
  assert.deepEqual(JSON.parse(await readFile(join(examples, 'jobset.json'), 'utf8')), sixteen)
})

test('Kubernetes and JobSet know every field of a manifest, by their own types', { skip: withoutGo }, async () => {
  const misspelt = { ...one, spec: { ...(one['spec'] as object), backofLimit: 0 } }
  const mistyped = { ...one, spec: { ...(one['spec'] as object), completions: 'one' } }
  const answers = await decodeStrictly([one, sixteen, misspelt, mistyped])
  assert.deepEqual(answers.slice(0, 2), ['ok', 'ok'])
  assert.match(answers[2] ?? '', /unknown field "spec\.backofLimit"|unknown field "backofLimit"/)
  assert.match(answers[3] ?? '', /cannot unmarshal string/)
})

test('several nodes meet at the first pod, and each knows its own place', () => {
  const spec = JSON.stringify(sixteen)
  assert.match(spec, /--master-addr=longhaul-dapo-0123456789abcdef-node-0-0\.longhaul-dapo-0123456789abcdef"/)
  assert.match(spec, /--node-rank=\$\(JOB_COMPLETION_INDEX\)/)
  assert.match(spec, /"--nnodes=16","--nproc-per-node=8","--max-restarts=0"/)
})
