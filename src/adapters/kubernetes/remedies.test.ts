import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toClusterError, ClusterRefusal } from './cluster-errors.ts'
import { kubectlRefusal } from '../trainer-job/launchers/kubernetes-pods.ts'

const bySandbox = (error: Error): string => toClusterError(error, { doing: 'opening a pod', details: {} }).message
const byTrainer = (said: string): string => kubectlRefusal('create a job', said).message

test('a refusal that both workers can get has one remedy with the setting of each', () => {
  const body = JSON.stringify({ reason: 'NotFound', message: 'namespaces "x" not found' })
  assert.match(
    bySandbox(new ClusterRefusal(404, body)),
    /→ create the namespace, or correct LONGHAUL_KUBERNETES_NAMESPACE \[/,
  )
  assert.match(byTrainer('Error (NotFound): namespaces "x" not found'), /or correct trainer\.kubernetes\.namespace \[/)
})

test('an address that does not answer is attributed to the kubeconfig, in the words of Node and kubectl', () => {
  const failed = new Error('fetch failed', { cause: new Error('connect ECONNREFUSED 10.0.0.1:6443') })
  assert.match(bySandbox(failed), /→ the address in the kubeconfig .* does not answer \[/)
  assert.match(byTrainer('dial tcp 10.0.0.1:6443: connect: connection refused'), /→ the address in the kubeconfig/)
  assert.match(byTrainer('dial tcp: lookup api.example: no such host'), /→ the address in the kubeconfig/)
})

test('a missing kubeconfig is reported when kubectl contacts localhost', () => {
  const said = 'The connection to the server localhost:8080 was refused - did you specify the right host or port?'
  assert.match(byTrainer(said), /→ set KUBECONFIG of the trainer worker/)
})

test('a pod that a namespace policy refuses is attributed to the policy, not to rights', () => {
  const message = 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'
  const body = JSON.stringify({ reason: 'Forbidden', message })
  assert.match(bySandbox(new ClusterRefusal(403, body)), /→ let the namespace enforce the pod security standard/)
})

// Admission refuses as `Forbidden` too. The sentences are those of a server 1.36.
const NO_MATTER_OF_RIGHTS: [what: string, said: string, remedy: RegExp][] = [
  [
    'a LimitRange with a lower maximum',
    'pods "a" is forbidden: maximum memory usage per Container is 64Mi, but limit is 2Gi',
    /→ request what the LimitRange of the namespace allows/,
  ],
  [
    'a LimitRange with a ratio',
    'pods "a" is forbidden: cpu max limit to request ratio per Container is 1, but provided ratio is 4.000000',
    /→ request what the LimitRange of the namespace allows/,
  ],
  [
    'a quota that wants every pod to say what it asks for',
    'pods "a" is forbidden: failed quota: disk: must specify limits.ephemeral-storage for: sandbox',
    /→ set the resources that the quota of the namespace counts/,
  ],
  [
    'a namespace without a quota where a resource needs one',
    'pods "a" is forbidden: insufficient quota to consume: requests.nvidia.com/gpu',
    /→ create a ResourceQuota in the namespace/,
  ],
  [
    'a namespace without a quota of the scope that a priority needs',
    'pods "a" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [batch]}]',
    /→ create a ResourceQuota in the namespace/,
  ],
  [
    'a webhook that refuses',
    'admission webhook "policy.lab.example" denied the request: no pods on Fridays',
    /→ allow these pods in the named admission policy or webhook/,
  ],
  [
    'a policy that refuses',
    `pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no pods on Fridays`,
    /→ allow these pods in the named admission policy or webhook/,
  ],
  [
    'a webhook that does not answer',
    'Internal error occurred: failed calling webhook "policy.lab.example": failed to call webhook: Post "https://x": dial tcp 10.0.0.1:443: connect: connection refused',
    /→ repair the named admission webhook/,
  ],
  [
    'a namespace on its way out',
    'pods "a" is forbidden: unable to create new content in namespace x because it is being terminated',
    /→ create the namespace/,
  ],
]

for (const [what, message, remedy] of NO_MATTER_OF_RIGHTS) {
  test(`${what}: it says what to change and blames neither rights nor the address`, () => {
    const body = JSON.stringify({ reason: 'Forbidden', message })
    assert.match(bySandbox(new ClusterRefusal(403, body)), remedy)
    assert.match(byTrainer(`Error from server (Forbidden): error when creating "STDIN": ${message}`), remedy)
  })
}

test('an unknown admission rule is reported in the words of the server only', () => {
  const body = JSON.stringify({ reason: 'Forbidden', message: 'pods "a" is forbidden: the lab is closed' })
  assert.doesNotMatch(bySandbox(new ClusterRefusal(403, body)), /→/)
})

test('a missing right is named by the server, and we add where to read about it', () => {
  const message = 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "x"'
  const body = JSON.stringify({ reason: 'Forbidden', message })
  assert.match(bySandbox(new ClusterRefusal(403, body)), /→ give the account of the sandbox worker the rights/)
})

test('certificate errors are attributed to certificates, and a slow network is not', () => {
  assert.match(byTrainer('x509: certificate signed by unknown authority'), /→ the cluster and the kubeconfig/)
  assert.match(bySandbox(new Error('fetch failed', { cause: new Error('tlsv1 alert unknown ca') })), /do not trust/)
  assert.doesNotMatch(byTrainer('net/http: TLS handshake timeout'), /→/)
})
