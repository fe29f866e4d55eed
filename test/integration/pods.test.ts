/** The whole way from a worker to a runner as it is in a pod, with containers for pods: what a real cluster adds has kubernetes-sandbox.test.ts. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { connectCluster } from '../../src/adapters/kubernetes/cluster.ts'
import { createPodSandboxHost, type PodSandboxHost } from '../../src/adapters/kubernetes/pod-sandbox-host.ts'
import { type PodsApi, startPodsApi } from '../support/kubernetes/pods-api.ts'
import { podsFixture } from '../support/kubernetes/pods-fixture.ts'
import { describeCapture } from '../support/sandbox-contract/capture.ts'
import { describeJournal } from '../support/sandbox-contract/journal.ts'
import { describePods } from '../support/sandbox-contract/pods.ts'
import { describeProcesses } from '../support/sandbox-contract/processes.ts'
import { describeReplay } from '../support/sandbox-contract/replay.ts'
import { describeTurns } from '../support/sandbox-contract/turns.ts'
import { codeOf, createPlayer, createSandboxFixture, type MakeFixture, never, PATIENT } from './sandbox-fixture.ts'

describe('pods of an API', () => {
  let api: PodsApi

  const makeHost = async (namespaceId = ''): Promise<PodSandboxHost> =>
    createPodSandboxHost({
      cluster: await connectCluster({ access: api.access }),
      hostId: 'pods-test',
      hostQueue: 'sandbox.pods-test',
      namespaceId,
    })
  const makeFixture: MakeFixture = async (topic, files) => {
    const made = await createSandboxFixture(`pods-${topic}`, files)
    return podsFixture(made, { host: await makeHost(), anotherHost: makeHost, dispose: () => made.dispose() })
  }

  before(async () => {
    api = await startPodsApi(await connectEngine())
  })
  after(() => api?.close())

  describeTurns(makeFixture)
  describeJournal(makeFixture, { canRestart: false })
  describeProcesses(makeFixture)
  describeCapture(makeFixture)
  describeReplay(makeFixture)
  describePods({ makeFixture, makeHost })

  test('a turn is lost when its pod is deleted, also when it is requested again, and closing succeeds', async () => {
    const fixture = await makeFixture('deleted', { 'm.py': 'x = 1\n' })
    try {
      const sandbox = await fixture.host.open(fixture.openInput(), never)
      const request = createPlayer(fixture.host, sandbox).next('sleep 6000', PATIENT)
      const running = fixture.host.runTurn(sandbox, request, never)
      running.catch(() => undefined)
      await fixture.kill(sandbox.name)
      for (const turn of [running, fixture.host.runTurn(sandbox, request, never)])
        await assert.rejects(turn, (error) => codeOf(error) === 'Sandbox.Lost')
      await fixture.host.close(sandbox)
    } finally {
      await fixture.dispose()
    }
  })

  test('turns send no request to the API server, because one exec stream carries them', async () => {
    const fixture = await makeFixture('stream', { 'm.py': 'x = 1\n' })
    try {
      const player = createPlayer(fixture.host, await fixture.host.open(fixture.openInput(), never))
      const before = api.requests.length
      for (let turn = 0; turn < 5; turn += 1) await player.play('true')
      assert.deepEqual(api.requests.slice(before), [])
    } finally {
      await fixture.dispose()
    }
  })
})
