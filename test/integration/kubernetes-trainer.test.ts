import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { changeEnvironment, useEnvironment } from '../support/environment.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { LonghaulError } from '../../src/contracts/errors.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import type { KubernetesLauncherRecipe } from '../../src/contracts/recipe.types.ts'
import { claimFence, exitReport, specPath } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import type { PreparedJob } from '../../src/adapters/trainer-job/job/job-spec.ts'
import { runJob } from '../../src/adapters/trainer-job/job/run-job.ts'
import { createKubernetesLauncher } from '../../src/adapters/trainer-job/launchers/kubernetes-launcher.ts'
import { kubernetesName } from '../../src/adapters/trainer-job/launchers/kubernetes-manifests.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { goProgram } from '../../src/stack/setup/go-build.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts'
import { findKubernetes } from '../support/kubernetes/programs.ts'
import { sharedClaim } from '../support/kubernetes/shared-claim.ts'
import { python, pythonEnvironment, withoutPython } from '../support/python.ts'
import { LONG_JOB, makeJobStore, prepareTestJob } from '../support/training-jobs.ts'

const found = withoutPython === false ? await findKubernetes() : { reason: withoutPython }
const IMAGE = 'longhaul.test/trainer:1'
const NAMESPACE = 'training'
const ACCOUNT = 'trainer-worker'
/** Its one pod may have a tenth of what a job asks for. */
const POOR = 'poor'

/**
 * The real trainer on a real cluster, from the API server to the container. The namespace enforces the policy `restricted`; the worker's
 * account has the rights that docs/training-jobs.md lists, and no other.
 */
describe('training jobs on Kubernetes', { skip: 'reason' in found ? found.reason : false }, () => {
  const never = new AbortController().signal
  useEnvironment({ after })
  const umask = process.umask()
  let root = ''
  let cluster: Cluster
  let store: ArtifactStore
  let base: PolicyRef
  let options: KubernetesLauncherRecipe
  let runs = 0

  before(async () => {
    const { programs } = found as { programs: string }
    root = await mkdtemp(join(tmpdir(), 'kubernetes-jobs-'))
    // The pods' user is not the worker's: it writes beside it.
    process.umask(0)
    await chmod(root, 0o777)
    ;({ store, base } = await makeJobStore(root))
    const interpreter = python ?? ''
    const trainer = (pythonEnvironment.PYTHONPATH ?? '').split(':')[0] ?? ''
    const folders = [dirname(dirname(interpreter)), dirname(dirname(await realpath(interpreter))), trainer, '/usr']
    const shared = [...new Set(folders)].filter((path) => path === '/usr' || !path.startsWith('/usr/'))
    // The image holds no program: a file system that the nodes share does. Programs are called there, for some folders of this machine, as /tmp,
    // are a pod's own. Only the interpreter's base lies where its environment says.
    const places = Object.fromEntries(shared.map((path, index) => [path, join(root, 'shared', String(index))]))
    const inPod = (path: string): string => {
      const folder = shared.find((one) => path === one || path.startsWith(`${one}/`)) ?? ''
      return join(places[folder] ?? folder, path.slice(folder.length))
    }
    const image = {
      name: IMAGE,
      directories: ['/etc', '/proc', '/sys', '/dev', '/tmp'],
      links: { ...places, '/lib': 'usr/lib', '/lib64': 'usr/lib64', '/bin': 'usr/bin' },
      env: { PYTHONPATH: inPod(trainer), PYTHONDONTWRITEBYTECODE: '1' },
    }
    cluster = await startCluster({ programs, images: [image], store: root, shared })
    await prepareNamespaces()
    cluster.authority.issue('worker', { name: ACCOUNT })
    process.env['KUBECONFIG'] = await cluster.configFile('worker')
    process.env['PATH'] = `${programs}:${process.env['PATH']}`
    options = {
      namespace: NAMESPACE,
      image: IMAGE,
      python: inPod(interpreter),
      claim: 'artifacts',
      mountPath: root,
      gpusPerNode: 0,
      cpus: 1,
      memoryGiB: 2,
      shmGiB: 1,
      serviceAccount: null,
      runAsUser: 1000,
      runAsGroup: 1000,
      nodeSelector: {},
    }
  })
  after(async () => {
    process.umask(umask)
    await cluster?.close()
    await rm(root, { recursive: true, force: true })
  })

  /** The story: a worker dies after it launched a Job; the next one finds it; a node is drained, then a pod killed. */
  test('the next attempt finds its predecessor by name and resumes from the last step until the job ends', async () => {
    const job = await prepare()
    await claim(job, 1)
    await launcher().launch({ job, fence: 1 })
    const onFirstStep = (act: () => void) => {
      let steps = 0
      return ({ event }: { event: string }) => event === 'opt_step' && ++steps === 1 && act()
    }
    const drain = (): void => {
      const pods = ['--namespace', NAMESPACE, '--selector', `longhaul/job=${job.jobId}`]
      void cluster.kubectl(['delete', 'pod', ...pods, '--wait=false']).catch(() => undefined)
    }
    const drained = runJob({ job, launcher: launcher(), attempt: 2, signal: never, onProgress: onFirstStep(drain) })
    await assert.rejects(drained, { code: 'Trainer.Stopped' })
    assert.deepEqual(await fencesOf(job), ['spec.1.json'], 'the second worker launched nothing')
    const kill = (): void => void killTrainer(job, 2)
    const killed = runJob({ job, launcher: launcher(), attempt: 3, signal: never, onProgress: onFirstStep(kill) })
    await assert.rejects(killed, { code: 'Trainer.Failed', message: /Failed for Kubernetes .*; its pod: exit 137/s })
    const events: string[] = []
    const onProgress = ({ event }: { event: string }) => events.push(event)
    const result = await runJob({ job, launcher: launcher(), attempt: 4, signal: never, onProgress })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('resumed') && !events.includes('alarm'), events.join(' '))
    const lease = JSON.parse(await readFile(join(job.jobDirectory, 'leases/3.json'), 'utf8')) as { launcher: string }
    assert.equal(lease.launcher, job.jobId)
    assert.equal((await launcher().look({ job, fence: 3 })).kind, 'over')
    const replaced = { kind: 'over', code: null, how: 'replaced in Kubernetes' }
    assert.deepEqual(await launcher().look({ job, fence: 1 }), replaced)
    assert.deepEqual(await namesOf('jobs'), [kubernetesName({ job, fence: 3 })])
    // Done is done: a further attempt launches nothing.
    assert.deepEqual(await runJob({ job, launcher: launcher(), attempt: 5, signal: never }), result)
    assert.deepEqual(await fencesOf(job), ['spec.1.json', 'spec.2.json', 'spec.3.json'])
  })

  test('a cancelled job receives TERM, exits with 75, and leaves no Job, pod or policy', async () => {
    const job = await prepare()
    const controller = new AbortController()
    const onProgress = ({ event }: { event: string }) => event === 'opt_step' && controller.abort(new Error('enough'))
    await assert.rejects(
      runJob({ job, launcher: launcher(), attempt: 1, signal: controller.signal, onProgress }),
      /enough/,
    )
    assert.equal((await exitReport(job.jobDirectory, 1))?.code, 75)
    assert.deepEqual(await launcher().look({ job, fence: 1 }), { kind: 'absent', how: 'unknown to Kubernetes' })
    assert.deepEqual(await leftOf(job), [])
  })

  test('two concurrent launchers create one Job, and the refused one removes nothing of it', async () => {
    const job = await prepare({ cpus: 64 })
    const attempts = [1, 2].map((fence) => ({ job, fence }))
    for (const { fence } of attempts) await claim(job, fence)
    const ends = await Promise.allSettled(attempts.map((attempt) => launcher({ cpus: 64 }).launch(attempt)))
    const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as LonghaulError] : []))
    assert.deepEqual(
      refused.map(({ code, details }) => [code, details['refused']]),
      [['Trainer.Unavailable', true]],
    )
    assert.equal((await namesOf('jobs')).filter((name) => name.includes(job.jobId)).length, 1)
    // It waits for a node that is large enough: a queue, and no reason to give up.
    const states = await Promise.all(attempts.map((attempt) => launcher({ cpus: 64 }).look(attempt)))
    assert.equal(states.filter(({ kind }) => kind === 'alive').length, 1)
    assert.ok(states.every((state) => state.kind !== 'alive' || state.blockedBy === undefined))
    for (const attempt of attempts) await launcher().stop(attempt, 0)
    assert.deepEqual(await leftOf(job), [])
  })

  test('the next fence trains when the launcher died between claim and Job', async () => {
    const job = await prepare({}, 4)
    await claim(job, 1)
    const result = await runJob({ job, launcher: { ...launcher(), launchMs: 2_000 }, attempt: 2, signal: never })
    assert.equal(result.steps, 4)
    assert.deepEqual(await fencesOf(job), ['spec.1.json', 'spec.2.json'])
  })

  test('a pod with a missing program reports its end in the words of the container', async () => {
    const job = await prepare()
    const broken = launcher({ python: '/nowhere/python3' })
    await assert.rejects(runJob({ job, launcher: broken, attempt: 1, signal: never }), (error: Error) => {
      assert.match(error.message, /Failed for Kubernetes .*; its pod: exit 128, StartError: .*\/nowhere\/python3/s)
      assert.doesNotMatch(error.message, /stdout\.log/)
      return true
    })
  })

  test('a pod whose program fails reports its exit code and last output', async () => {
    const job = await prepare()
    const broken = launcher({ python: '/usr/bin/false' })
    await assert.rejects(runJob({ job, launcher: broken, attempt: 1, signal: never }), /its pod: exit 1, Error/)
    const talkative = await prepare()
    await claim(talkative, 1)
    await rm(join(talkative.jobDirectory, 'spec.1.json'))
    await launcher().launch({ job: talkative, fence: 1 })
    const state = await untilOver({ job: talkative, fence: 1 })
    assert.match(state.how, /its pod: exit \d+, Error: .*spec\.1\.json/s)
  })

  describe('reports what keeps a pod from starting and deletes the Job', () => {
    const cases: { what: string; change: Partial<KubernetesLauncherRecipe>; says: RegExp }[] = [
      {
        what: 'a quota that it can never fit',
        change: { namespace: POOR },
        says: /exceeded quota: small, requested: .*cpu=1, .*limited: .*cpu=100m.* → raise the quota of the namespace/,
      },
      {
        what: 'an image that no registry has',
        change: { image: 'registry.invalid/trainer:1' },
        says: /(?:ErrImagePull|ImagePullBackOff): .*registry\.invalid.* → push the image/s,
      },
      {
        what: 'a claim that is not there',
        change: { claim: 'nothing' },
        says: /persistentvolumeclaim "nothing" not found.* → create the claim/,
      },
      {
        what: 'a service account that does not exist',
        change: { serviceAccount: 'stranger' },
        says: /serviceaccount "stranger" not found.* → create the account/,
      },
    ]
    for (const { what, change, says } of cases) {
      test(what, async () => {
        const job = await prepare()
        const failing = runJob({ job, launcher: launcher(change), attempt: 1, signal: never, blockedMs: 500 })
        await assert.rejects(failing, (error: Error & { code?: string }) => {
          assert.equal(error.code, 'Trainer.Unavailable')
          assert.match(error.message, says)
          return true
        })
        assert.deepEqual(await leftOf(job, change.namespace), [])
      })
    }
  })

  describe('each refusal of the cluster is one error with the place, the cause and the fix, and creates nothing', () => {
    const cases: {
      what: string
      change?: Partial<KubernetesLauncherRecipe>
      environment?: () => Promise<Record<string, string>>
      says: RegExp
    }[] = [
      {
        what: 'a namespace that does not exist',
        change: { namespace: 'nowhere' },
        // An account with rights in some namespaces alone hears that it has none in this one.
        environment: async () => ({ KUBECONFIG: await cluster.configFile('admin') }),
        says: /namespace nowhere: .*namespaces "nowhere" not found → create the namespace/s,
      },
      {
        what: 'an account without rights',
        environment: async () => identity('stranger', { name: 'stranger' }),
        says: /\(Forbidden\).*cannot get resource "jobs".* → give the account/s,
      },
      {
        what: 'a certificate of another authority',
        environment: async () => {
          const config = await cluster.configFile('worker')
          const text = JSON.parse(await readFile(config, 'utf8')) as { clusters: { cluster: Record<string, string> }[] }
          const pem = await readFile(join(dirname(config), 'pki/worker.pem'))
          for (const { cluster: named } of text.clusters) named['certificate-authority-data'] = pem.toString('base64')
          return writeConfig('distrusted', text)
        },
        says: /(?:x509|certificate).* → the cluster and the kubeconfig/s,
      },
      {
        what: 'a certificate that has expired',
        environment: async () => identity('expired', { name: ACCOUNT, days: -1 }),
        says: /(?:Unauthorized|asked for the client to provide credentials|logged in).* → the credentials of the trainer worker/s,
      },
      {
        what: 'no kubeconfig',
        environment: async () => ({ KUBECONFIG: join(root, 'no-such-file') }),
        says: / → set KUBECONFIG/,
      },
      {
        what: 'no kubectl',
        environment: async () => ({ PATH: join(root, 'no-programs') }),
        says: /there is no program kubectl on the PATH of the trainer worker/,
      },
    ]
    for (const { what, change = {}, environment, says } of cases) {
      test(what, async () => {
        const job = await prepare()
        const restore = changeEnvironment(await environment?.())
        try {
          await assert.rejects(
            runJob({ job, launcher: launcher(change), attempt: 1, signal: never }),
            (error: Error & { code?: string }) => {
              assert.equal(error.code, 'Trainer.Unavailable')
              assert.match(error.message, says)
              return true
            },
          )
        } finally {
          restore()
        }
        // The claim is withdrawn, so that the next attempt waits for no launcher.
        assert.equal((await exitReport(job.jobDirectory, 1))?.class, 'not-launched')
        assert.deepEqual(await leftOf(job), [])
      })
    }
  })

  test('several nodes need JobSet: the error names it, and the cluster accepts the submitted JobSet', async () => {
    const job = await prepare({}, 4)
    const several = { ...job, layout: { ...job.layout, nodes: 2 } }
    await claim(several, 1)
    await assert.rejects(launcher().launch({ job: several, fence: 1 }), /→ install JobSet/)
    const definition = await jobSetDefinition()
    if (definition === null) return
    await cluster.kubectl(['create', '-f', '-'], await readFile(definition, 'utf8'))
    // `kubectl wait` also fails while the definition is so new that it has no conditions.
    await eventually(() =>
      cluster.kubectl(['wait', '--for=condition=Established', '--timeout=60s', 'crd/jobsets.jobset.x-k8s.io']),
    )
    await launcher().launch({ job: several, fence: 1 })
    assert.deepEqual(await launcher().look({ job: several, fence: 1 }), { kind: 'alive' })
    // No controller is there, which would make pods of it: only the schema is the real one.
    assert.equal(await launcher().stop({ job: several, fence: 1 }, 0), true)
    assert.deepEqual(await leftOf(job), [])
  })

  /** Last: the cluster is gone after it. A test that is killed closes the same pipe. */
  test('no test leaves objects in its cluster', async () => {
    await cluster.close()
    assert.equal(existsSync(cluster.home), false)
    const groups = await Promise.all(
      ['', ...(await readdir('/sys/fs/cgroup').catch(() => []))].map((name) =>
        readdir(join('/sys/fs/cgroup', name)).catch(() => []),
      ),
    )
    assert.deepEqual(
      groups.flat().filter((name) => name === `longhaul-${basename(cluster.home)}`),
      [],
    )
    assert.doesNotMatch(await readFile('/proc/self/mountinfo', 'utf8'), new RegExp(basename(cluster.home)))
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'args'])
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.includes(cluster.home)),
      [],
    )
  })

  async function prepareNamespaces(): Promise<void> {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
    const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: ACCOUNT }
    const objects = [NAMESPACE, POOR].flatMap((namespace) => [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata: { name: ACCOUNT, namespace },
        rules: RIGHTS,
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: ACCOUNT, namespace },
        roleRef: role,
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: ACCOUNT }],
      },
      ...sharedClaim({ namespace, path: root }),
    ])
    const quota = {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'small', namespace: POOR },
      spec: { hard: { 'requests.cpu': '100m' } },
    }
    const list = { apiVersion: 'v1', kind: 'List', items: [...objects, quota] }
    await cluster.kubectl(['create', '-f', '-'], JSON.stringify(list))
    for (const namespace of [NAMESPACE, POOR]) {
      await eventually(async () => cluster.kubectl(['get', 'serviceaccount', 'default', '--namespace', namespace]))
      await cluster.kubectl([
        'wait',
        '--for=jsonpath={.status.phase}=Bound',
        '--timeout=60s',
        '--namespace',
        namespace,
        'pvc/artifacts',
      ])
    }
    // A quota counts only once the controller has seen it.
    await eventually(async () => {
      const used = await cluster.kubectl([
        'get',
        'resourcequota',
        'small',
        '--namespace',
        POOR,
        '--output',
        'jsonpath={.status.hard}',
      ])
      assert.match(used, /100m/)
    })
  }

  function launcher(change: Partial<KubernetesLauncherRecipe> = {}): Launcher {
    return { ...createKubernetesLauncher({ options: { ...options, ...change } }), pollMs: 500, settleMs: 5_000 }
  }

  async function prepare(
    change: Partial<KubernetesLauncherRecipe> = {},
    trajectories = LONG_JOB,
  ): Promise<PreparedJob> {
    runs += 1
    return prepareTestJob({
      store,
      policy: base,
      run: `run-${runs}`,
      trajectories,
      trainer: { launcher: 'kubernetes', kubernetes: { ...options, ...change }, stallS: 600, timeoutS: 900 },
    })
  }

  async function claim(job: PreparedJob, fence: number): Promise<void> {
    await claimFence({ jobDirectory: job.jobDirectory, fence, spec: { ...job.spec, attempt: fence, fence } })
  }

  async function fencesOf(job: PreparedJob): Promise<string[]> {
    return (await readdir(job.jobDirectory)).filter((name) => name.startsWith('spec.')).sort()
  }

  /** As the kernel does it where memory runs out: the machine sees the processes of pods. */
  async function killTrainer(job: PreparedJob, fence: number): Promise<void> {
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid,args'])
    const lines = stdout.split('\n').filter((line) => line.includes(specPath(job.jobDirectory, fence)))
    for (const line of lines) process.kill(Number.parseInt(line, 10), 'SIGKILL')
  }

  async function untilOver(attempt: { job: PreparedJob; fence: number }) {
    for (const deadline = Date.now() + HANG_MS; ; await sleep(500)) {
      const state = await launcher().look(attempt)
      if (state.kind === 'over') return state
      assert.ok(Date.now() < deadline, 'it goes on')
    }
  }

  async function namesOf(kind: string, namespace = NAMESPACE): Promise<string[]> {
    const names = await cluster.kubectl(['get', kind, '--namespace', namespace, '--output', 'name'])
    return names
      .split('\n')
      .filter((name) => name !== '')
      .map((name) => name.slice(name.indexOf('/') + 1))
  }

  async function leftOf(job: PreparedJob, namespace = NAMESPACE): Promise<string[]> {
    const names = await namesOf('jobs,pods,networkpolicies', namespace)
    return names.filter((name) => name.includes(job.jobId))
  }

  async function identity(file: string, who: { name: string; days?: number }): Promise<Record<string, string>> {
    cluster.authority.issue(file, who)
    return { KUBECONFIG: await cluster.configFile(file) }
  }

  async function writeConfig(name: string, value: object): Promise<Record<string, string>> {
    const path = join(root, `${name}.json`)
    await writeFile(path, JSON.stringify(value))
    return { KUBECONFIG: path }
  }
})

/** As docs/training-jobs.md lists them. */
const RIGHTS = [
  { apiGroups: ['batch'], resources: ['jobs'], verbs: ['get', 'create', 'delete'] },
  { apiGroups: ['jobset.x-k8s.io'], resources: ['jobsets'], verbs: ['get', 'create', 'delete'] },
  { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: ['create', 'delete'] },
  { apiGroups: [''], resources: ['pods', 'events'], verbs: ['list'] },
]

/** The definition in the module whose types `infra/kubernetes/types` decodes into; null where Go has not fetched it. */
async function jobSetDefinition(): Promise<string | null> {
  const cwd = join(import.meta.dirname, '../../infra/kubernetes/types')
  const args = ['list', '-m', '-f', '{{.Dir}}', 'sigs.k8s.io/jobset']
  const go = await goProgram()
  if (go === null) return null
  const { stdout } = await promisify(execFile)(go, args, { cwd, env: { ...process.env, GOWORK: 'off', GOFLAGS: '' } })
  const path = join(stdout.trim(), 'config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml')
  return existsSync(path) ? path : null
}
