/** Sandboxes as pods of a real cluster: the promises that containers keep, and what only a cluster can do to them. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readClusterAccess } from '../../src/adapters/kubernetes/cluster-access.ts'
import { connectCluster } from '../../src/adapters/kubernetes/cluster.ts'
import { createPodSandboxHost, type PodSandboxHost } from '../../src/adapters/kubernetes/pod-sandbox-host.ts'
import type { Check } from '../../src/stack/doctor/finding.ts'
import type { LonghaulError } from '../../src/contracts/errors.ts'
import type { OpenSandboxInput, SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import {
  listPods,
  NAMESPACE,
  POOR,
  type PodsCluster,
  startPodsCluster,
  stays,
} from '../support/kubernetes/pods-fixture.ts'
import { longhaul } from '../support/command-line.ts'
import { changeEnvironment } from '../support/environment.ts'
import { eventually } from '../support/hang.ts'
import { findKubernetes } from '../support/kubernetes/programs.ts'
import { describeCapture } from '../support/sandbox-contract/capture.ts'
import { describeGrading } from '../support/sandbox-contract/grading.ts'
import { describeJournal } from '../support/sandbox-contract/journal.ts'
import { describePodGrading } from '../support/sandbox-contract/pod-grading.ts'
import { describePods } from '../support/sandbox-contract/pods.ts'
import { describeProcesses } from '../support/sandbox-contract/processes.ts'
import { describeReplay } from '../support/sandbox-contract/replay.ts'
import { describeTools } from '../support/sandbox-contract/tools.ts'
import { describeTurns } from '../support/sandbox-contract/turns.ts'
import {
  type ContractFixture,
  codeOf,
  createPlayer,
  LIMITS,
  type MakeFixture,
  never,
  PATIENT,
  untilTrue,
} from './sandbox-fixture.ts'

const found = await findKubernetes()

describe('sandboxes as pods', { skip: 'reason' in found ? found.reason : false }, () => {
  let pods: PodsCluster
  const makeFixture: MakeFixture = (topic, files) => pods.makeFixture(topic, files)

  before(async () => {
    pods = await startPodsCluster((found as { programs: string }).programs)
  })
  after(() => pods?.close())

  describeTurns(makeFixture)
  describeJournal(makeFixture, { canRestart: false })
  describeProcesses(makeFixture)
  describeCapture(makeFixture)
  describeTools(makeFixture)
  describeReplay(makeFixture)
  describeGrading(makeFixture)
  describePodGrading(() => pods)
  describePods({ makeFixture, makeHost: (namespaceId) => pods.hostAs('worker', { namespaceId }) })

  describe('the cluster as a dependency', () => {
    let fixture: ContractFixture
    let host: PodSandboxHost
    let placement = 0

    before(async () => {
      fixture = await makeFixture('cluster', { 'm.py': 'x = 1\n' })
      host = await pods.hostAs('worker')
    })
    after(async () => {
      host?.dispose()
      await fixture?.dispose()
    })

    const input = (changes: Partial<OpenSandboxInput> = {}): OpenSandboxInput =>
      fixture.openInput({ placement: ++placement, ...changes })
    const open = (changes: Partial<OpenSandboxInput> = {}): Promise<SandboxHandle> => host.open(input(changes), never)

    test('refuses a pod name that belongs to another owner and leaves that pod running', async () => {
      const sandbox = await open()
      await pods.cluster.kubectl(['annotate', '--overwrite', 'pod', sandbox.name, '-n', NAMESPACE, 'longhaul.run=else'])
      const again = fixture.openInput({ placement })
      await assert.rejects(host.open(again, never), { code: 'Sandbox.JournalConflict' })
      assert.equal(await fixture.isRunning(sandbox.name), true)
      await host.close(sandbox)
    })

    // The story: a sandbox goes in the middle of an episode, by an operator, a drain or a failing node. None of it is the agent's doing:
    // the turn ends as lost, the episode is placed anew, and the turns that were committed are played again there.
    const ENDS: [what: string, end: (name: string) => Promise<unknown>, undo?: () => Promise<unknown>][] = [
      ['deleted', (name) => pods.cluster.kubectl(['delete', 'pod', name, '-n', NAMESPACE, '--wait=false'])],
      [
        'evicted, as a drain does it',
        (name) =>
          pods.cluster.kubectl(
            ['create', '--raw', `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`, '-f', '-'],
            JSON.stringify({ apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: NAMESPACE } }),
          ),
      ],
      [
        'on a node that is given up',
        () => pods.cluster.kubectl(['taint', 'node', '127.0.0.1', 'longhaul.test/lost=1:NoExecute']),
        () => pods.cluster.kubectl(['taint', 'node', '127.0.0.1', 'longhaul.test/lost-']),
      ],
    ]
    for (const [what, end, undo] of ENDS) {
      test(`a turn is lost when its pod is ${what}, and the episode continues in another pod`, async () => {
        const sandbox = await open()
        const player = createPlayer(host, sandbox)
        await player.play('echo one > /testbed/one')
        const request = player.next('echo begun > /tmp/begun; sleep 6000', PATIENT)
        const running = host.runTurn(sandbox, request, never)
        running.catch(() => undefined)
        await untilTrue(async () => (await fixture.probe(sandbox, 'cat /tmp/begun 2>/dev/null')).includes('begun'))
        await end(sandbox.name)
        try {
          await assert.rejects(running, (error) => codeOf(error) === 'Sandbox.Lost')
          await assert.rejects(host.runTurn(sandbox, request, never), (error) => codeOf(error) === 'Sandbox.Lost')
          await host.close(sandbox)
          await host.close(sandbox)
        } finally {
          await undo?.()
        }
        const next = await open()
        const replayed = createPlayer(host, next)
        await replayed.play('echo one > /testbed/one')
        assert.equal((await replayed.play('cat /testbed/one')).text, 'one\n')
        await host.close(next)
      })
    }

    test('an agent that exceeds its disk is evicted by the node as its own doing and gets no other pod', async () => {
      const sandbox = await open({ limits: { ...LIMITS, diskGiB: 0.1 } })
      const request = createPlayer(host, sandbox).next(
        'head -c 300000000 /dev/zero > /testbed/full; sleep 6000',
        PATIENT,
      )
      await assert.rejects(host.runTurn(sandbox, request, never), (error) => codeOf(error) === 'Sandbox.DiskLimit')
      await host.close(sandbox)
    })

    describe('each refusal of the cluster is one error with the cause and the fix, and no pod stays', () => {
      const cases: {
        what: string
        code: string
        says: RegExp
        change?: Partial<OpenSandboxInput>
        place?: { namespace?: string; seccompProfile?: string }
        identity?: () => Promise<string>
      }[] = [
        {
          what: 'a quota that a sandbox does not fit',
          code: 'Sandbox.EngineUnavailable',
          place: { namespace: POOR },
          says: /exceeded quota: small.* → raise the quota of the namespace/s,
        },
        {
          what: 'an image with an unreachable registry',
          code: 'Sandbox.PullFailed',
          change: { image: 'registry.invalid/task:1' },
          says: /does not reach the registry|could not be pulled by the node/,
        },
        {
          what: 'a runtime that the cluster does not know',
          code: 'Sandbox.RuntimeMissing',
          change: { limits: { ...LIMITS, runtime: 'no-such-runtime' } },
          says: /RuntimeClass.*no-such-runtime/s,
        },
        {
          what: 'an image without a repository',
          code: 'Sandbox.ImageUnsuitable',
          change: { repoDir: '/usr' },
          says: /lacks what a sandbox needs/,
        },
        {
          what: 'a node without the profile of system calls',
          code: 'Sandbox.EngineUnavailable',
          place: { seccompProfile: 'longhaul/nowhere.json' },
          says: /seccomp.*install the profile on every node/s,
        },
        {
          what: 'a namespace that does not exist',
          code: 'Sandbox.EngineUnavailable',
          place: { namespace: 'nowhere' },
          identity: async () => 'admin',
          says: /namespaces "nowhere" not found.* → create the namespace/s,
        },
        {
          what: 'an account without rights',
          code: 'Sandbox.EngineUnavailable',
          identity: () => identity('stranger', { name: 'stranger' }),
          says: /\(Forbidden\) → give the account of the sandbox worker the rights/,
        },
        {
          what: 'a certificate that has expired',
          code: 'Sandbox.EngineUnavailable',
          identity: () => identity('expired', { name: 'sandbox-worker', days: -1 }),
          says: /Unauthorized.* → the credentials of the sandbox worker are wrong or have expired/,
        },
      ]
      for (const { what, code, says, change = {}, place, identity: who } of cases) {
        test(what, async () => {
          const refused = await pods.hostAs((await who?.()) ?? 'worker', place)
          try {
            await assert.rejects(refused.open(input(change), never), (error: LonghaulError) => {
              assert.equal(error.code, code, error.message)
              assert.match(error.message, says)
              return true
            })
          } finally {
            refused.dispose()
          }
          const left = await pods.cluster.kubectl([
            'get',
            'pods',
            '-A',
            '-o',
            'jsonpath={range .items[?(@.metadata.deletionTimestamp=="")]}{.metadata.name}{" "}{end}',
          ])
          assert.deepEqual(
            left.split(' ').filter((name) => name.includes('pods-cluster')),
            [],
          )
        })
      }

      // What an operator sets up in a namespace, and what a sandbox there is told. The rights are an administrator's: nothing here is about them.
      const RULES: [
        what: string,
        labels: Record<string, string>,
        rules: (namespace: string) => object[],
        says: RegExp,
      ][] = [
        [
          'a LimitRange with a maximum below the limits of a sandbox',
          {},
          () => [
            {
              apiVersion: 'v1',
              kind: 'LimitRange',
              metadata: { name: 'small' },
              spec: { limits: [{ type: 'Container', max: { memory: '64Mi' } }] },
            },
          ],
          /maximum memory usage per Container is 64Mi.* → request what the LimitRange of the namespace allows/s,
        ],
        [
          'a quota that is smaller than one sandbox',
          {},
          () => [
            {
              apiVersion: 'v1',
              kind: 'ResourceQuota',
              metadata: { name: 'tiny' },
              spec: { hard: { 'limits.memory': '64Mi' } },
            },
          ],
          /exceeded quota: tiny.* → raise the quota of the namespace, or request less in sandbox\.request/s,
        ],
        [
          'the pod security standard restricted',
          { 'pod-security.kubernetes.io/enforce': 'restricted' },
          () => [],
          /violates PodSecurity "restricted.* → let the namespace enforce the pod security standard baseline/s,
        ],
        [
          'an admission policy that denies',
          {},
          (namespace) => {
            const metadata = { name: 'no-sandboxes' }
            const isHere = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } }
            const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }
            const group = 'admissionregistration.k8s.io/v1'
            return [
              {
                apiVersion: group,
                kind: 'ValidatingAdmissionPolicy',
                metadata,
                spec: {
                  matchConstraints: { resourceRules: [rule] },
                  validations: [{ expression: 'false', message: 'no pods on Fridays' }],
                },
              },
              {
                apiVersion: group,
                kind: 'ValidatingAdmissionPolicyBinding',
                metadata,
                spec: { policyName: 'no-sandboxes', validationActions: ['Deny'], matchResources: isHere },
              },
            ]
          },
          /no pods on Fridays.* → allow these pods in the named admission policy or webhook/s,
        ],
        [
          'an admission webhook that does not answer',
          {},
          (namespace) => [
            {
              apiVersion: 'admissionregistration.k8s.io/v1',
              kind: 'ValidatingWebhookConfiguration',
              metadata: { name: 'away' },
              webhooks: [
                {
                  name: 'away.longhaul.test',
                  clientConfig: { url: 'https://127.0.0.1:1/' },
                  admissionReviewVersions: ['v1'],
                  sideEffects: 'None',
                  failurePolicy: 'Fail',
                  rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
                  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
                },
              ],
            },
          ],
          /failed calling webhook.* → repair the named admission webhook/s,
        ],
      ]
      for (const [place, [what, labels, rulesOf, says]] of RULES.entries()) {
        test(what, async () => {
          const namespace = `ruled-${place}`
          await makeNamespace(namespace, labels, rulesOf(namespace))
          const refused = await pods.hostAs('admin', { namespace })
          try {
            // A rule that was just made is heard of a little later: until then sandboxes open, and are closed again.
            await untilTrue(async () => {
              const said = await refused.open(input(), never).then(
                (sandbox) => refused.close(sandbox).then(() => ''),
                (error: LonghaulError) => error.message,
              )
              if (said !== '') assert.match(said, says)
              return said !== ''
            })
          } finally {
            refused.dispose()
          }
          assert.deepEqual(await stayingPods(namespace), [])
        })
      }

      test('a sandbox is refused while another one uses up the quota, and opens when there is room', async () => {
        await makeNamespace('full', {}, [
          {
            apiVersion: 'v1',
            kind: 'ResourceQuota',
            metadata: { name: 'one' },
            spec: { hard: { 'count/pods': '1' } },
          },
        ])
        const crowded = await pods.hostAs('admin', { namespace: 'full' })
        try {
          await untilTrue(async () => {
            const status = ['get', 'resourcequota', 'one', '-n', 'full', '-o', 'jsonpath={.status.hard}']
            return (await pods.cluster.kubectl(status)).includes('1')
          })
          const first = await crowded.open(input(), never)
          await assert.rejects(crowded.open(input(), never), {
            code: 'Sandbox.EngineUnavailable',
            message: /exceeded quota: one.* → raise the quota of the namespace/s,
          })
          assert.equal((await createPlayer(crowded, first).play('echo still here')).text, 'still here\n')
          await crowded.close(first)
          await untilTrue(async () => (await stayingPods('full')).length === 0)
          await untilTrue(() =>
            crowded.open(input(), never).then(
              (next) => crowded.close(next).then(() => true),
              () => false,
            ),
          )
        } finally {
          crowded.dispose()
        }
      })

      const RIGHTS: [resource: string, verb: string][] = [
        ['pods', 'get'],
        ['pods', 'create'],
        ['pods/exec', 'get'],
        ['configmaps', 'get'],
      ]
      for (const [resource, verb] of RIGHTS) {
        test(`an account that may not ${verb} ${resource} gets an error that names the right, and no pod stays`, async () => {
          const namespace = `without-${verb}-${resource.replace('/', '-')}`
          const rules = (await roleRules())
            .map((rule) => ({
              ...rule,
              verbs: rule.resources.includes(resource) ? rule.verbs.filter((one) => one !== verb) : rule.verbs,
            }))
            .filter(({ verbs }) => verbs.length > 0)
          const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'part' }
          const metadata = { name: 'part', namespace }
          await makeNamespace(namespace, {}, [
            { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata, rules },
            {
              apiVersion: 'rbac.authorization.k8s.io/v1',
              kind: 'RoleBinding',
              metadata,
              roleRef: role,
              subjects: [{ apiGroup: role.apiGroup, kind: 'User', name: 'sandbox-worker' }],
            },
          ])
          const refused = await pods.hostAs('worker', { namespace })
          try {
            await assert.rejects(refused.open(input(), never), {
              code: 'Sandbox.EngineUnavailable',
              message: new RegExp(
                `cannot ${verb} resource "${resource}".* → give the account of the sandbox worker the rights`,
                's',
              ),
            })
          } finally {
            refused.dispose()
          }
          assert.deepEqual(await stayingPods(namespace), [])
        })
      }

      test('a certificate of another authority', async () => {
        const path = await pods.cluster.configFile('worker')
        const config = JSON.parse(await readFile(path, 'utf8')) as { clusters: { cluster: Record<string, string> }[] }
        const pem = await readFile(join(pods.cluster.home, 'pki/worker.pem'))
        for (const { cluster } of config.clusters) cluster['certificate-authority-data'] = pem.toString('base64')
        const distrusted = join(pods.cluster.home, 'distrusted.json')
        await writeFile(distrusted, JSON.stringify(config))
        const cluster = await connectCluster({
          namespace: NAMESPACE,
          access: await readClusterAccess({ KUBECONFIG: distrusted }),
        })
        const refused = createPodSandboxHost({
          cluster,
          hostId: 'x',
          hostQueue: 'x',
        })
        await assert.rejects(refused.open(input(), never), /do not trust each other/)
        refused.dispose()
      })
    })

    test('the doctor of a worker without an engine looks at the cluster and at no engine', async () => {
      const look = async (namespace: string) => {
        const restore = changeEnvironment({
          LONGHAUL_SANDBOXES: 'pods',
          LONGHAUL_GRADERS: 'pods',
          LONGHAUL_SANDBOX_CPUS: '4',
          LONGHAUL_KUBERNETES_NAMESPACE: namespace,
          KUBECONFIG: await pods.cluster.configFile('worker'),
        })
        try {
          const { stdout } = await longhaul('doctor', '--role', 'sandbox', '--json')
          return (JSON.parse(stdout) as { checks: Check[] }).checks
        } finally {
          restore()
        }
      }
      const checks = await look(NAMESPACE)
      assert.deepEqual(
        checks.filter(({ group }) => group === 'docker').map(({ name }) => name),
        [],
      )
      const found = (all: Check[]) => all.find(({ group }) => group === 'kubernetes')
      assert.equal(found(checks)?.level, 'ok', found(checks)?.value)
      const refused = found(await look('kube-system'))
      assert.equal(refused?.level, 'fail')
      assert.match(refused?.value ?? '', /cannot list resource "pods".*give the account of the sandbox worker/s)
    })

    async function makeNamespace(name: string, labels: Record<string, string>, rules: object[]): Promise<void> {
      const whole = rules.map((rule) => {
        const { metadata } = rule as { metadata: { name: string } }
        const isOfCluster = (rule as { kind: string }).kind.startsWith('Validating')
        return { ...rule, metadata: { ...(isOfCluster ? {} : { namespace: name }), ...metadata } }
      })
      const items = [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }, ...whole]
      const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
      await pods.cluster.kubectl(['create', '--validate=false', '-f', '-'], list)
      await eventually(() => pods.cluster.kubectl(['get', 'serviceaccount', 'default', '--namespace', name]))
    }

    /** Of the account of a worker, as the shipped manifest has them. */
    async function roleRules(): Promise<{ resources: string[]; verbs: string[] }[]> {
      const { items } = (await import('../../infra/kubernetes/sandboxes.json', { with: { type: 'json' } })).default
      return items.flatMap(({ rules = [] }) => rules)
    }

    /** That nothing has told to go. */
    async function stayingPods(namespace: string): Promise<string[]> {
      const all = await listPods(pods.cluster, namespace)
      return all.filter(stays).map(({ metadata }) => metadata.name)
    }

    async function identity(file: string, who: { name: string; days?: number }): Promise<string> {
      pods.cluster.authority.issue(file, who)
      return file
    }
  })
})
