/**
 * The chart, installed by the real Helm on a real Kubernetes: the project's own images, namespaces that enforce the pod security standards, and
 * the whole recipe `mini` in the pods, which are replaced while it runs.
 */
import assert from 'node:assert/strict'
import { chown, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { stringify } from 'yaml'
import { buildImages } from '../../infra/images/build.ts'
import { USER } from '../../infra/images/layers.ts'
import { checkLedger } from '../../src/activities/training/check-ledger.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { packageFile, stackPaths } from '../../src/stack/paths.ts'
import { smallKubectl } from '../support/delivery/small-kubectl.ts'
import { callTool, findHelm } from '../support/delivery/tools.ts'
import { eventually, HANG_MS, STORY_MS } from '../support/hang.ts'
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts'
import { type PodRelay, startPodRelay } from '../support/kubernetes/pod-relay.ts'
import { findKubernetes } from '../support/kubernetes/programs.ts'
import { sharedClaim } from '../support/kubernetes/shared-claim.ts'
import { needsServer, type OwnPlace, prepareOwnNamespace } from '../support/own-namespace.ts'
import { python, type RunningServer, startPolicyServer, withoutPython } from '../support/python.ts'
import { outcomeOf, waitForPhase } from '../support/run-recipe.ts'
import { episodesOf, recipeOf } from '../support/run-records.ts'
import { startTraining } from '../../src/client/index.ts'

const REPOSITORY = 'longhaul.test/lab'
const WORKERS = 'longhaul'
const HOSTS = 'longhaul-sandboxes'
/** `mini`, as `whole-run.test.ts` counts it. */
const EPISODES = 3 * 8 + 4 * 4 + 2 * 3 * 4

const found = await findMeans()

describe('the chart on a cluster', { skip: 'reason' in found ? found.reason : false, timeout: STORY_MS }, () => {
  const { programs, helm } = found as { programs: string; helm: string }
  let root: string
  let place: OwnPlace
  let policyServer: RunningServer
  let cluster: Cluster
  let kubeconfig: string
  const relays: PodRelay[] = []
  let isInstalled = false

  before(
    async () => {
      root = await mkdtemp(join(tmpdir(), 'helm-'))
      await mkdir(join(root, 'artifacts'))
      for (const folder of [root, join(root, 'artifacts')]) await chown(folder, USER, USER)
      place = await prepareOwnNamespace('helm', root)
      policyServer = await startPolicyServer({ state: join(root, 'policy-server'), maxVersions: 8 })
      const socket = (process.env['DOCKER_HOST'] ?? '/var/run/docker.sock').replace('unix://', '')
      cluster = await startCluster({
        programs,
        images: [],
        store: root,
        shared: [dirname(dirname(python ?? '')), dirname(socket)],
      })
      for (const target of [place.connection.address, new URL(policyServer.url).host])
        relays.push(await startPodRelay(cluster, target))
      kubeconfig = await cluster.configFile('admin')
      await importImages()
      await prepareNamespaces()
      await writeValues(socket)
    },
    { timeout: STORY_MS },
  )

  after(async () => {
    await cluster?.close()
    await policyServer?.stop()
    await Promise.all(relays.map((relay) => relay.close()))
    await place?.connection.close()
    await rm(root, { recursive: true, force: true })
  })

  test('two releases install, and every pod starts under its namespace’s policy', async () => {
    await release('install', 'longhaul', WORKERS, ['--set', 'sandbox.enabled=false'])
    await release('install', 'hosts', HOSTS, [
      '--set',
      'control.enabled=false,artifactsWorker.enabled=false,trainer.enabled=false',
    ])
    assert.deepEqual(await componentsOf(WORKERS), ['artifacts', 'control', 'control', 'trainer'])
    assert.deepEqual(await componentsOf(HOSTS), ['sandbox'])
    isInstalled = true
  })

  test('the checks that docs/cluster.md gives an operator succeed', async () => {
    assert.ok(isInstalled)
    const inside = ['exec', 'deployment/longhaul-control', '--namespace', WORKERS, '--', 'longhaul']
    const doctor = await cluster.kubectl([...inside, 'doctor', '--role', 'control', '--json'])
    assert.notEqual((JSON.parse(doctor) as { level: string }).level, 'fail', doctor)
    await eventually(async () => {
      const listed = await cluster.kubectl([...inside, 'host', 'list', '--json'])
      const { hosts } = JSON.parse(listed) as { hosts: { host: string; state: string }[] }
      assert.deepEqual(
        hosts.map(({ state }) => state),
        ['open'],
        listed,
      )
    })
  })

  /** The story: an operator brings new settings while a run is on its way, and nodes give up pods of each role. */
  test('a run survives an upgrade, a lost host and a lost trainer, and counts every episode once', async () => {
    assert.ok(isInstalled)
    const { connection } = place
    // Its containers are told by its name from those of a suite that was killed on this engine.
    const handle = await startTraining({ connection, recipe: 'mini', run: `in-a-cluster-${process.pid}` })
    const { workflowId } = handle
    // A slow operator finds the run in a later phase, which is as good.
    const until = (phase: RegExp) => waitForPhase({ connection, workflowId, phase, limitMs: HANG_MS })
    const say = (line: string): void => console.error(line)
    const ended = outcomeOf({ connection, handle, limitMs: 0.8 * STORY_MS, say })
    ended.catch(() => undefined)
    await until(/^evaluating base/)
    await release('upgrade', 'longhaul', WORKERS, ['--reuse-values', '--set', 'viewerUrl=http://viewer.test'])
    await until(/^(?:rejection fine-tuning|evaluating r|reinforcing)/)
    await cluster.kubectl(['delete', 'pod', '--namespace', HOSTS, '--all', '--wait=false'])
    await until(/^(?:reinforcing|evaluating rl)/)
    const trainer = ['--selector', 'app.kubernetes.io/component=trainer']
    await cluster.kubectl(['delete', 'pod', '--namespace', WORKERS, ...trainer, '--force', '--grace-period=0'])
    const outcome = await ended
    assert.equal(outcome.status, 'completed', JSON.stringify(outcome))
    if (outcome.status !== 'completed') return
    const { run, stages } = outcome.result
    assert.deepEqual(
      stages.map(({ name }) => name),
      ['base', 'rft', 'rl'],
    )
    const store = createDirectoryStore({ root: join(root, 'artifacts') })
    const episodes = await episodesOf(store, run)
    const counted = episodes.filter(({ disposition }) => disposition !== 'infra' && disposition !== 'cancelled')
    assert.equal(counted.length, EPISODES)
    const check = await checkLedger({ store, recipe: await recipeOf(store, run) }, run)
    assert.deepEqual(check.mismatches, [])
    assert.equal(check.totals.episodes, episodes.length)
    assert.deepEqual(await listSandboxes({ engine: await connectEngine(), run }), [])
  })

  test('uninstalling leaves only what others own', async () => {
    assert.ok(isInstalled)
    await helmCall(['uninstall', 'longhaul', '--namespace', WORKERS, '--wait', '--timeout', '5m'])
    await helmCall(['uninstall', 'hosts', '--namespace', HOSTS, '--wait', '--timeout', '5m'])
    const kinds = 'all,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,secrets'
    for (const namespace of [WORKERS, HOSTS]) {
      // Helm ends before the last processes of the pods do.
      await cluster.kubectl(['wait', 'pods', '--all', '--for=delete', '--timeout=110s', '--namespace', namespace])
      const left = await cluster.kubectl(['get', kinds, '--namespace', namespace, '--output', 'name'])
      assert.deepEqual(left.trim().split('\n').toSorted(), ['configmap/kube-root-ca.crt', 'serviceaccount/default'])
    }
  })

  async function importImages(): Promise<void> {
    const environment = join(root, 'python')
    const packages = join(environment, 'lib/python3.11/site-packages')
    await mkdir(packages, { recursive: true })
    // Of the trainer's gigabytes the image has the address: the machine's lie on the file system that the nodes share.
    await writeFile(join(packages, 'shared.pth'), `${join(root, 'shared/0/lib/python3.11/site-packages')}\n`)
    const images = await buildImages({
      targets: ['worker', 'sandbox', 'trainer'],
      output: join(root, 'images'),
      repository: REPOSITORY,
      tag: '0',
      cacheDir: stackPaths().cacheDir,
      python: environment,
      kubectl: await smallKubectl(root),
      log: (line) => console.error(`images  ${line}`),
      signal: new AbortController().signal,
    })
    for (const { archive } of images) {
      await cluster.importImage(archive)
      await rm(archive)
    }
  }

  async function prepareNamespaces(): Promise<void> {
    const items = [
      [WORKERS, 'restricted'],
      [HOSTS, 'privileged'],
    ].flatMap(([namespace = '', level]) => [
      {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': level } },
      },
      ...sharedClaim({ namespace, path: root }),
    ])
    await cluster.kubectl(['create', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  }

  async function writeValues(socket: string): Promise<void> {
    const [temporal, policies] = relays
    const small = { requests: { cpu: '50m', memory: '256Mi' } }
    const values = {
      image: { repository: REPOSITORY, tag: '0', pullPolicy: 'Never' },
      temporal: { address: temporal?.address, namespace: place.connection.namespace },
      artifacts: { location: join(root, 'artifacts'), claim: { name: 'artifacts', mountPath: root } },
      policyServer: { url: `http://${policies?.address}` },
      control: { resources: small },
      artifactsWorker: { resources: small },
      trainer: { resources: small },
      sandbox: {
        resources: small,
        leaseSeconds: 120,
        minFreeGiB: 1,
        engine: {
          kind: 'node',
          node: { socket: join(root, 'shared/1', socket.split('/').at(-1) ?? ''), group: (await stat(socket)).gid },
        },
      },
    }
    await writeFile(join(root, 'values.yaml'), stringify(values))
  }

  async function release(action: string, name: string, namespace: string, more: string[]): Promise<void> {
    const values = action === 'install' ? ['--values', join(root, 'values.yaml')] : []
    const chart = packageFile('infra/helm/longhaul')
    const ours = ['--namespace', namespace, '--selector', 'app.kubernetes.io/name=longhaul']
    try {
      await helmCall([action, name, chart, '--namespace', namespace, ...values, ...more, '--wait', '--timeout', '5m'])
      // Helm does not wait for the pods of a DaemonSet that may lack one. After an upgrade the old ones are still on their way out.
      if (action === 'install')
        await cluster.kubectl(['wait', 'pods', '--for=condition=Ready', '--timeout=110s', ...ours])
    } catch (error) {
      const asked = [
        ['get', 'pods', '--output', 'wide', ...ours],
        ['get', 'events', '--namespace', namespace, '--sort-by=.lastTimestamp'],
        ['logs', '--all-containers', '--tail', '20', '--prefix', ...ours],
      ]
      const answers = await Promise.all(asked.map((args) => cluster.kubectl(args).catch(String)))
      throw new Error([String(error), ...answers.map((answer) => answer.slice(-3_000))].join('\n'), { cause: error })
    }
  }

  async function helmCall(args: string[]): Promise<void> {
    const { exitCode, tail } = await callTool({ program: helm, args, env: { KUBECONFIG: kubeconfig }, home: root })
    assert.equal(exitCode, 0, `helm ${args[0]}: ${tail}`)
  }

  /** Of pods that are ready. */
  async function componentsOf(namespace: string): Promise<string[]> {
    const output = await cluster.kubectl(['get', 'pods', '--namespace', namespace, '--output', 'json'])
    const { items } = JSON.parse(output) as {
      items: {
        metadata: { labels: Record<string, string> }
        status: { conditions: { type: string; status: string }[] }
      }[]
    }
    const ready = items.filter(({ status }) =>
      status.conditions.some((condition) => condition.type === 'Ready' && condition.status === 'True'),
    )
    assert.equal(ready.length, items.length)
    return items.map(({ metadata }) => metadata.labels['app.kubernetes.io/component'] ?? '').toSorted()
  }
})

async function findMeans(): Promise<{ programs: string; helm: string } | { reason: string }> {
  if (needsServer !== false) return { reason: needsServer }
  if (withoutPython !== false) return { reason: withoutPython }
  const kubernetes = await findKubernetes()
  if ('reason' in kubernetes) return kubernetes
  const helm = await findHelm()
  return 'reason' in helm ? helm : { programs: kubernetes.programs, helm: helm.program }
}
