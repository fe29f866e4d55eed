/**
 * An evaluation whose sandboxes are pods of a real cluster, beside the same one in containers: pods are evicted, deleted and driven off their node, and the
 * API server stands still, each at another phase of a turn. The records have to be those of containers, one by one.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import { identify, signalProcess } from '../../src/platform/processes.ts'
import { type ChaosStack, needsChaos, startChaosStack } from '../support/chaos/chaos-stack.ts'
import { compareRuns } from '../support/chaos/compare-runs.ts'
import type { Fault } from '../support/chaos/faults.ts'
import type { Phase } from '../support/chaos/phases.ts'
import { type PlayedRun, playRun } from '../support/chaos/play-run.ts'
import type { RunDigest } from '../support/chaos/run-digest.ts'
import { importInto, NAMESPACE, type PodsCluster, startPodsCluster } from '../support/kubernetes/pods-fixture.ts'
import { findKubernetes } from '../support/kubernetes/programs.ts'
import { eventually } from '../support/hang.ts'

const found = needsChaos === false ? await findKubernetes() : { reason: needsChaos }
/** Longer than an attempt waits for a sign of life. */
const FROZEN_MS = 8_000

describe('an evaluation in pods', { skip: 'reason' in found ? found.reason : false }, () => {
  let stack: ChaosStack
  let pods: PodsCluster
  let quiet: RunDigest

  before(async () => {
    stack = await startChaosStack({ training: false, say: console.error })
    const inContainers = await play([])
    assert.deepEqual(inContainers.violations, [])
    quiet = inContainers.digest
    pods = await startPodsCluster((found as { programs: string }).programs)
    await importTaskImages()
    await stack.stopWorker('sandbox')
    Object.assign(stack.process('sandbox').plan.env, {
      LONGHAUL_SANDBOXES: 'pods',
      LONGHAUL_SANDBOX_CPUS: '8',
      LONGHAUL_KUBERNETES_NAMESPACE: NAMESPACE,
      KUBECONFIG: await pods.cluster.configFile('worker'),
    })
    await stack.startWorker('sandbox')
  })

  after(async () => {
    await stack?.close()
    await pods?.close()
  })

  const kubectl = (args: string[], input?: string): Promise<string> =>
    pods.cluster.kubectl([...args, '--namespace', NAMESPACE], input)
  const podNames = async (): Promise<string[]> =>
    (await kubectl(['get', 'pods', '--output', 'name'])).split('\n').filter((line) => line !== '')
  /** Whether none of these pods is there any more, or each is on its way out. */
  const areLeaving = async (names: readonly string[]): Promise<boolean> => {
    const staying = await kubectl(['get', 'pods', '--output', 'json'])
    const { items } = JSON.parse(staying) as { items: { metadata: { name: string; deletionTimestamp?: string } }[] }
    const alive = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    return names.length > 0 && !alive.some(({ metadata }) => names.includes(`pod/${metadata.name}`))
  }

  const FAULTS: [phase: Phase, fault: Omit<Fault, 'phases' | 'expects'>][] = [
    [
      'executing',
      {
        name: 'eviction',
        async strike({ visit }) {
          const name = visit.container ?? ''
          const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`
          const metadata = { name, namespace: NAMESPACE }
          const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata }
          await pods.cluster.kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(body))
          return { seen: () => areLeaving([`pod/${name}`]) }
        },
      },
    ],
    [
      'recorded',
      {
        name: 'pod-delete',
        async strike() {
          const names = await podNames()
          await kubectl(['delete', ...names, '--wait=false'])
          return { seen: () => areLeaving(names) }
        },
      },
    ],
    [
      'executed',
      {
        name: 'node-loss',
        async strike() {
          const names = await podNames()
          const taint = (what: string) =>
            pods.cluster.kubectl(['taint', 'node', '127.0.0.1', `longhaul.test/lost${what}`])
          await taint('=1:NoExecute')
          let isGone = false
          const over = (async () => {
            try {
              await eventually(async () => assert.ok(await areLeaving(names)))
              isGone = true
            } finally {
              await taint('-')
            }
          })()
          return { over, seen: () => isGone }
        },
      },
    ],
    [
      'capturing',
      {
        name: 'api-server-frozen',
        async strike() {
          const server = identify(await pidOf('kube-apiserver'))
          signalProcess(server, 'SIGSTOP')
          let wasDeaf = false
          const over = sleep(FROZEN_MS).then(async () => {
            wasDeaf = await kubectl(['get', 'pods', '--request-timeout=2s']).then(
              () => false,
              () => true,
            )
            signalProcess(server, 'SIGCONT')
          })
          return { over, seen: () => wasDeaf }
        },
      },
    ],
  ]

  test('without a fault: the records are those of containers', async () => {
    const played = await play([])
    assert.deepEqual(played.violations, [])
    assert.deepEqual(compareRuns({ quiet, hurt: played.digest, expects: 'identical' }), [])
    assert.deepEqual(await untilNoPods(), [])
  })

  for (const [phase, fault] of FAULTS) {
    test(`${fault.name} at ${phase}: struck, and the records are those of containers`, async () => {
      const whole: Fault = { ...fault, phases: [phase], expects: 'identical' }
      const played = await play([[phase, whole]])
      assert.deepEqual(played.violations, [])
      assert.deepEqual(
        played.struck.map((cell) => cell.fault.name),
        [fault.name],
      )
      assert.deepEqual(compareRuns({ quiet, hurt: played.digest, expects: 'identical' }), [])
      assert.deepEqual(await untilNoPods(), [])
    })
  }

  /** A pod that is told to go may take its time. */
  async function untilNoPods(): Promise<string[]> {
    for (const deadline = Date.now() + 60_000; ; await sleep(500)) {
      const names = await podNames()
      if (names.length === 0 || Date.now() > deadline) return names
    }
  }

  async function importTaskImages(): Promise<void> {
    const { engine } = stack.engines.a
    const filters = JSON.stringify({ reference: ['longhaul/synthetic'] })
    const images = (await engine.docker.listImages({ filters })).flatMap(({ RepoTags }) => RepoTags ?? [])
    assert.ok(images.length > 0, 'the run in containers has left no image')
    for (const image of images) await importInto(pods.cluster, { engine, image }, join(stack.scratchDir, 'image.tar'))
  }

  async function pidOf(part: string): Promise<number> {
    const { stdout } = await promisify(execFile)('pgrep', ['--full', `/${part} .*${pods.cluster.home}/`])
    const [pid = '', ...others] = stdout.trim().split('\n')
    assert.deepEqual(others, [], stdout)
    return Number(pid)
  }

  function play(faults: readonly [Phase, Fault][]): Promise<PlayedRun> {
    return playRun({
      stack,
      kind: 'evaluation',
      recipeSeed: 1,
      seed: 1,
      cells: faults.map(([phase, fault]) => ({ cell: { fault, phase, nth: 0 }, count: 1 })),
      random: randomFrom('pods'),
      limitMs: null,
      say: console.error,
    })
  }
})
