/** The launcher and the real `kubectl`, before an API that speaks HTTP: what a cluster would do with a Job is told by hand. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { after, afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { useEnvironment } from '../../../../test/support/environment.ts'
import {
  type KubernetesApi,
  type KubernetesObject,
  startKubernetesApi,
  withoutKubectl,
} from '../../../../test/support/kubernetes-api.ts'
import { exampleAttempt, exampleOptions } from '../../../../test/support/launcher-examples.ts'
import { freePort } from '../../../../test/support/loopback.ts'
import { createKubernetesLauncher } from './kubernetes-launcher.ts'
import { kubernetesManifest, kubernetesName } from './kubernetes-manifests.ts'
import { HANG_MS } from '../../../../test/support/hang.ts'

describe('kubernetes launcher', { skip: withoutKubectl }, () => {
  const launcher = createKubernetesLauncher({ options: exampleOptions })
  const first = exampleAttempt({ nodes: 1, ranksPerNode: 8 })
  const second = { ...first, fence: 2 }
  const third = { ...first, fence: 3 }
  const name = kubernetesName(first)
  useEnvironment({ after })
  let api: KubernetesApi

  beforeEach(async () => {
    api = await startKubernetesApi()
    process.env['KUBECONFIG'] = api.config
  })
  afterEach(() => api.close())

  test('an attempt that is launched twice, also by a new launcher, is one Job, alive, under its fence', async () => {
    assert.deepEqual(await launcher.look(first), { kind: 'absent', how: 'unknown to Kubernetes' })
    await launcher.launch(first)
    assert.deepEqual(await launcher.look(first), { kind: 'alive' })
    await assertRefused(createKubernetesLauncher({ options: exampleOptions }).launch(first))
    assert.deepEqual(api.changes, ['POST jobs'])
  })

  test('the network of a job is closed once before its first pod and opened when the job stops', async () => {
    api.refusePolicies = true
    await assert.rejects(launcher.launch(first), {
      code: 'Trainer.Unavailable',
      message: /NetworkPolicy .*forbidden → /,
    })
    assert.deepEqual(api.changes, [], 'no pod may start without the NetworkPolicy')
    api.refusePolicies = false
    await launcher.launch(first)
    assert.deepEqual([...api.policies.keys()], [`${name}-ranks`])
    jobOf(name).status = { conditions: [{ type: 'Failed', status: 'True' }] }
    await launcher.launch(second)
    assert.deepEqual([...api.policies.keys()], [`${name}-ranks`])
    assert.equal(await launcher.stop(second, 1000), true)
    assert.equal(api.policies.size, 0)
  })

  /** The story: a worker is cut off, its Job trains on; others ask for the fences that they know. */
  test('a Job under another fence is not the requested attempt and stays alive for its own', async () => {
    await launcher.launch(second)
    assert.deepEqual(await launcher.look(first), { kind: 'over', code: null, how: 'replaced in Kubernetes' })
    assert.deepEqual(await launcher.look(third), { kind: 'absent', how: 'unknown to Kubernetes' })
    assert.deepEqual(await launcher.look(second), { kind: 'alive' })
    assert.deepEqual(api.changes, ['POST jobs'])
  })

  test('a launch replaces neither a live attempt nor a newer ended one', async () => {
    await launcher.launch(second)
    for (const attempt of [first, third]) await assertRefused(launcher.launch(attempt))
    jobOf(name).status = { conditions: [{ type: 'Failed', status: 'True' }] }
    await assertRefused(launcher.launch(first))
    assert.deepEqual(api.changes, ['POST jobs'])
    await launcher.launch(third)
    assert.equal(jobOf(name).metadata.labels?.['longhaul/fence'], '3')
  })

  test('the equal job of another store is neither followed nor stopped, and its name is free once it has ended', async () => {
    const other = { ...first, job: { ...first.job, jobDirectory: '/shared/staging/windows/v000000/job' } }
    await launcher.launch(other)
    assert.deepEqual(await launcher.look(first), { kind: 'absent', how: 'unknown to Kubernetes' })
    assert.equal(await launcher.stop(first, 0), true)
    await assert.rejects(launcher.launch(second), {
      code: 'Trainer.Unavailable',
      message: /another artifact store has it → .*trainer\.kubernetes\.namespace/,
      details: { fence: 2, refused: true },
    })
    assert.deepEqual(api.changes, ['POST jobs'])
    assert.deepEqual(await launcher.look(other), { kind: 'alive' })
    jobOf(name).status = { conditions: [{ type: 'Complete', status: 'True' }] }
    await launcher.launch(first)
    assert.deepEqual(await launcher.look(first), { kind: 'alive' })
    assert.deepEqual(await launcher.look(other), { kind: 'absent', how: 'unknown to Kubernetes' })
  })

  test('a Job of an earlier version, which names no directory, is found again', async () => {
    await launcher.launch(first)
    delete jobOf(name).metadata.labels?.['longhaul/directory']
    assert.deepEqual(await launcher.look(first), { kind: 'alive' })
    assert.equal(await launcher.stop(first, 0), true)
    assert.equal(api.objects.size, 0)
  })

  test('only a true condition ends a Job as complete or failed, with its reason', async () => {
    await launcher.launch(first)
    const job = jobOf(name)
    for (const type of ['Complete', 'Failed', 'Suspended']) {
      job.status = { conditions: [{ type, status: 'False' }] }
      assert.deepEqual(await launcher.look(first), { kind: 'alive' }, `${type} is not true`)
    }
    job.status = { conditions: [{ type: 'Suspended', status: 'True' }] }
    assert.deepEqual(await launcher.look(first), { kind: 'alive' }, 'a pending Job only waits')
    job.status.conditions.push({ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: 'no more' })
    const how = 'Failed for Kubernetes (BackoffLimitExceeded no more)'
    assert.deepEqual(await launcher.look(first), { kind: 'over', code: null, how })
    job.status = { conditions: [{ type: 'Complete', status: 'True' }] }
    assert.equal((await launcher.look(first)).kind, 'over')
  })

  test('the next attempt deletes the dead one with its pods and takes its name', async () => {
    await launcher.launch(first)
    jobOf(name).status = { conditions: [{ type: 'Failed', status: 'True' }] }
    api.podsEnd = false
    const launching = launcher.launch(second)
    await until(() => jobOf(name).metadata.deletionTimestamp !== undefined)
    // Its pods are still there, so nothing may be created beside them.
    assert.deepEqual(api.changes, ['POST jobs', `DELETE jobs/${name} Foreground`])
    api.finishDeletion(name)
    await launching
    assert.deepEqual(api.changes, ['POST jobs', `DELETE jobs/${name} Foreground`, 'POST jobs'])
    assert.equal(jobOf(name).metadata.labels?.['longhaul/fence'], '2')
    const { metadata, ...sent } = jobOf(name)
    const wanted = kubernetesManifest({ options: exampleOptions, attempt: second })
    assert.deepEqual(
      { ...sent, metadata: { ...metadata, uid: undefined } },
      { ...wanted, metadata: { ...(wanted['metadata'] as object), uid: undefined } },
    )
    assert.deepEqual(await launcher.look(second), { kind: 'alive' })
    assert.equal((await launcher.look(first)).kind, 'over')
  })

  test('a stop ends when the Job is gone, and fails when it may not be deleted', async () => {
    await launcher.launch(first)
    api.refuseDeletion = 403
    await assert.rejects(launcher.stop(first, 0), {
      code: 'Trainer.Unavailable',
      message: /delete job\.batch\/longhaul-.* in the namespace training: .*Forbidden.* → give the account/,
    })
    assert.deepEqual(await launcher.look(first), { kind: 'alive' })
    api.refuseDeletion = null
    assert.equal(await launcher.stop(first, 0), true)
    assert.equal(await launcher.stop(first, 0), true, 'already gone')
    assert.equal(api.objects.size, 0)
  })

  test('stopping a replaced or unlaunched attempt changes nothing, because the name belongs to another', async () => {
    await launcher.launch(second)
    for (const other of [first, { ...second, fence: 3 }]) assert.equal(await launcher.stop(other, 0), true)
    assert.deepEqual(api.changes, ['POST jobs'])
    assert.equal(api.policies.size, 1)
    assert.deepEqual(await launcher.look(second), { kind: 'alive' })
  })

  test('a stop ends when another object has the name', async () => {
    await launcher.launch(first)
    api.podsEnd = false
    const stopping = launcher.stop(first, 0)
    await until(() => jobOf(name).metadata.deletionTimestamp !== undefined)
    const { deletionTimestamp: _marked, ...metadata } = jobOf(name).metadata
    api.objects.set(name, { ...jobOf(name), metadata: { ...metadata, uid: 'uid-of-the-next' } })
    assert.equal(await stopping, true)
  })

  test('a live Job reports what keeps its pods from starting, a queue apart, and a dead one how a pod ended', async () => {
    await launcher.launch(first)
    const refused = 'pods "x" is forbidden: exceeded quota: small, requested: cpu=4, used: cpu=1, limited: cpu='
    const event = (limit: number) => ({ lastTimestamp: '2026-01-01T00:00:00Z', message: `${refused}${limit}` })
    api.events = [event(2)]
    const raise = 'raise the quota of the namespace, or request less in trainer.kubernetes'
    assert.deepEqual(await launcher.look(first), { kind: 'alive', blockedBy: `${refused}2 → ${raise}` })
    api.events = [event(4)]
    const usedUp = { kind: 'alive', queuedBy: `${refused}4 → ${raise}` }
    assert.deepEqual(await launcher.look(first), usedUp, 'a used-up quota is released later')
    const message = '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'
    api.pods = [{ status: { conditions: [{ type: 'PodScheduled', status: 'False', message }] } }]
    const state = await launcher.look(first)
    assert.ok(state.kind === 'alive' && state.blockedBy === undefined)
    assert.match(state.queuedBy ?? '', /3 Insufficient nvidia\.com\/gpu\. → .*trainer\.kubernetes/)
    const waiting = { reason: 'ImagePullBackOff', message: 'no such image' }
    api.pods = [{ status: { containerStatuses: [{ state: { waiting } }] } }]
    const push = 'push the image to a registry that the nodes may pull from, or correct trainer.kubernetes.image'
    assert.deepEqual(await launcher.look(first), {
      kind: 'alive',
      blockedBy: `ImagePullBackOff: no such image → ${push}`,
    })
    const terminated = { exitCode: 137, reason: 'OOMKilled', message: 'the last words\n' }
    api.pods = [{ status: { containerStatuses: [{ state: { terminated } }] } }]
    jobOf(name).status = { conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }] }
    const how =
      'Failed for Kubernetes (BackoffLimitExceeded ); its pod: exit 137, OOMKilled: the last words → raise trainer.kubernetes.memoryGiB, or lower trainer.maxTokensPerMicro'
    assert.deepEqual(await launcher.look(first), { kind: 'over', code: null, how })
  })

  test('stopping repeats until the pods are gone and needs only the rights get and delete', async () => {
    await launcher.launch(first)
    api.podsEnd = false
    const stopping = launcher.stop(first, 0)
    await until(() => jobOf(name).metadata.deletionTimestamp !== undefined)
    api.finishDeletion(name)
    assert.equal(await stopping, true)
    assert.equal(api.lists, 0, 'kubectl wait needs the rights list and watch and fails without a message')
  })

  test('several nodes use a JobSet, which is found and ended by its own kind and conditions', async () => {
    const attempt = exampleAttempt({ nodes: 16, ranksPerNode: 8 })
    await launcher.launch(attempt)
    assert.deepEqual(api.changes, ['POST jobsets'])
    assert.deepEqual(await launcher.look(attempt), { kind: 'alive' })
    jobOf(name).status = { conditions: [{ type: 'Completed', status: 'True' }] }
    assert.equal((await launcher.look(attempt)).kind, 'over')
    assert.equal(await launcher.stop(attempt, 0), true)
    assert.equal(api.changes.at(-1), `DELETE jobsets/${name} Foreground`)
  })

  test('an unreachable API is unavailable and never means that the attempt is over', async () => {
    await launcher.launch(first)
    const config = JSON.parse(await readFile(api.config, 'utf8')) as { clusters: { cluster: { server: string } }[] }
    for (const { cluster } of config.clusters) cluster.server = `http://127.0.0.1:${await freePort()}`
    await writeFile(api.config, JSON.stringify(config))
    for (const ask of [launcher.look, launcher.launch]) {
      await assert.rejects(ask(first), { code: 'Trainer.Unavailable', retryable: true })
    }
    assert.deepEqual(api.changes, ['POST jobs'])
  })

  async function assertRefused(launching: Promise<void>): Promise<void> {
    await assert.rejects(launching, (error: Error & { code?: string; details?: { refused?: boolean } }) => {
      assert.deepEqual([error.code, error.details?.refused], ['Trainer.Unavailable', true])
      return true
    })
  }

  function jobOf(named: string): KubernetesObject {
    return api.objects.get(named) ?? assert.fail(`there is no ${named}`)
  }

  async function until(isSo: () => boolean): Promise<void> {
    for (const deadline = Date.now() + HANG_MS; !isSo(); await sleep(20)) assert.ok(Date.now() < deadline)
  }
})
