import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayFitLater } from './kubernetes-pods.ts'

test('a quota that others use up means a queue, and one that is smaller than the pod does not, in any unit', () => {
  const quota = (requested: string, limited: string): string =>
    `pods "x" is forbidden: exceeded quota: small, requested: ${requested}, used: cpu=0, limited: ${limited}`
  for (const [requested, limited, fits] of [
    ['cpu=4', 'cpu=4', true],
    ['cpu=4', 'cpu=3500m', false],
    ['cpu=100m', 'cpu=1', true],
    ['limits.memory=16Gi', 'limits.memory=16G', false],
    ['limits.memory=1Gi', 'limits.memory=1100M', true],
    ['cpu=1,limits.memory=2Gi', 'cpu=1,limits.memory=1Gi', false],
    ['requests.nvidia.com/gpu=8', 'requests.nvidia.com/gpu=4', false],
  ] as const) {
    assert.equal(mayFitLater(quota(requested, limited)), fits, `${requested} of ${limited}`)
  }
})
