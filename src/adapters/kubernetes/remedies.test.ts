import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toClusterError, ClusterRefusal } from './cluster-errors.ts'
import { kubectlRefusal } from '../trainer-job/launchers/kubectl.ts'

const bySandbox = (error: Error): string => toClusterError(error, { doing: 'opening a pod', details: {} }).message
const byTrainer = (said: string): string => kubectlRefusal('create a job', said).message

test('a refusal that both workers meet has one remedy, in the words of each', () => {
  const body = JSON.stringify({ reason: 'NotFound', message: 'namespaces "x" not found' })
  assert.match(
    bySandbox(new ClusterRefusal(404, body)),
    /→ create the namespace, or correct LONGHAUL_KUBERNETES_NAMESPACE \[/,
  )
  assert.match(byTrainer('Error (NotFound): namespaces "x" not found'), /or correct trainer\.kubernetes\.namespace \[/)
})

test('an address that does not answer is said of the kubeconfig, as Node says it and as kubectl does', () => {
  const failed = new Error('fetch failed', { cause: new Error('connect ECONNREFUSED 10.0.0.1:6443') })
  assert.match(bySandbox(failed), /→ the address in the kubeconfig .* does not answer \[/)
  assert.match(byTrainer('dial tcp 10.0.0.1:6443: connect: connection refused'), /→ the address in the kubeconfig/)
  assert.match(byTrainer('dial tcp: lookup api.example: no such host'), /→ the address in the kubeconfig/)
})

test('kubectl without a kubeconfig asks localhost: the variable is missing, not the cluster', () => {
  const said = 'The connection to the server localhost:8080 was refused - did you specify the right host or port?'
  assert.match(byTrainer(said), /→ set KUBECONFIG of the trainer worker/)
})

test('a pod that a policy of the namespace refuses is told of the policy, not of rights', () => {
  const message = 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'
  const body = JSON.stringify({ reason: 'Forbidden', message })
  assert.match(bySandbox(new ClusterRefusal(403, body)), /→ let the namespace enforce the pod security standard/)
})

test('certificates are blamed for what they refuse, and not for a slow network', () => {
  assert.match(byTrainer('x509: certificate signed by unknown authority'), /→ the cluster and the kubeconfig/)
  assert.match(bySandbox(new Error('fetch failed', { cause: new Error('tlsv1 alert unknown ca') })), /do not trust/)
  assert.doesNotMatch(byTrainer('net/http: TLS handshake timeout'), /→/)
})
