/**
 * An episode's page beside the history of a real server. A scripted worker answers the server's tasks one by one, so that each attempt,
 * failure and open task is where the test put it.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { msToTs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { temporalSource, type TemporalSource } from '../../src/cli/run-source.ts'
import { connect, type LonghaulConnection, readHistory } from '../../src/client/index.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { PlacementRecord } from '../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../src/contracts/keys.ts'
import { createPages, type Pages } from '../../src/viewer/pages.ts'
import type { BlockersPage, EpisodePage, HistoryPage } from '../../src/viewer/pages.types.ts'
import { joinHistory, timelineOf } from '../../src/viewer/shared/timeline.ts'
import { HOSTILE } from '../support/hostile-texts.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { startSilentServer } from '../support/loopback.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { storeEpisode, storeViewedRun } from '../support/viewed-run.ts'
import { putPart } from '../support/record-examples.ts'

const QUEUE = 'control'
const PLACEMENT = 'placement'
const HOST = 'sandbox.h.b'

describe('histories in the viewer', { skip: needsServer }, () => {
  let root: string
  let store: ArtifactStore
  let connection: LonghaulConnection
  let source: TemporalSource
  let pages: Pages
  const started: string[] = []

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-history-'))
    store = createDirectoryStore({ root })
    await storeViewedRun(store, 'r')
    connection = await connectToOwnNamespace('viewer')
    const { address, namespace } = connection
    source = temporalSource(() => connect({ address, namespace }))
    pages = createPages(store, source)
  })

  after(async () => {
    for (const workflowId of started)
      await connection.client.workflow
        .getHandle(workflowId)
        .terminate('the test is over')
        .catch(() => undefined)
    await source?.close()
    await connection?.close()
    await rm(root, { recursive: true, force: true })
  })

  /** Answers the next workflow task with an activity to be done. */
  async function schedule(activityId: string, name: string, queue: string): Promise<void> {
    const { workflowService: service } = connection.client
    const { namespace } = connection
    const task = await connection.client.withDeadline(Date.now() + HANG_MS, () =>
      service.pollWorkflowTaskQueue({ namespace, taskQueue: { name: QUEUE }, identity: 'scripted' }),
    )
    await service.respondWorkflowTaskCompleted({
      namespace,
      taskToken: task.taskToken,
      identity: 'scripted',
      commands: [
        {
          commandType: proto.temporal.api.enums.v1.CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
          scheduleActivityTaskCommandAttributes: {
            activityId,
            activityType: { name },
            taskQueue: { name: queue },
            startToCloseTimeout: msToTs('1 hour'),
            scheduleToCloseTimeout: msToTs('1 hour'),
            retryPolicy: { initialInterval: msToTs('1 ms'), backoffCoefficient: 1 },
          },
        },
      ],
    })
  }

  async function pollActivity(queue: string): Promise<Uint8Array> {
    const task = await connection.client.withDeadline(Date.now() + HANG_MS, () =>
      connection.client.workflowService.pollActivityTaskQueue({
        namespace: connection.namespace,
        taskQueue: { name: queue },
        identity: '1@host-a',
      }),
    )
    return task.taskToken
  }

  async function fail(taskToken: Uint8Array, type: string, message: string): Promise<void> {
    await connection.client.workflowService.respondActivityTaskFailed({
      namespace: connection.namespace,
      taskToken,
      failure: { message, applicationFailureInfo: { type } },
    })
  }

  async function complete(taskToken: Uint8Array): Promise<void> {
    await connection.client.workflowService.respondActivityTaskCompleted({
      namespace: connection.namespace,
      taskToken,
    })
  }

  /** A workflow of the episode's id; nothing serves its queue but the test. */
  async function startWorkflow(workflowId: string): Promise<string> {
    const { firstExecutionRunId } = await connection.client.workflow.start('episode', { workflowId, taskQueue: QUEUE })
    started.push(workflowId)
    return firstExecutionRunId
  }

  async function storePlaced(taskId: string, ownerRun: string): Promise<string> {
    const episode = await storeEpisode(store, { run: 'r', taskId, turns: 2, hasEnded: false })
    const record: PlacementRecord = {
      schema: 'longhaul.placement/1',
      episode,
      placement: 1,
      ownerRun,
      requested: 1,
      hostId: 'h',
      image: 'i',
      placedAtMs: 900,
    }
    await putPart(store, episodeKeys.placement(episode, 1), record)
    return episode
  }

  const read = async (episode: string, of: Pages = pages): Promise<HistoryPage> =>
    (await of.read(`history/${episode}`)) as HistoryPage

  test('shows a failed attempt, its retry and an open step without an end', async () => {
    const ownerRun = await startWorkflow('train/r/dapo-1/0001/task/o__n-1/ep/00')
    await schedule('1', 'openSandbox', PLACEMENT)
    await fail(await pollActivity(PLACEMENT), 'Sandbox.EngineUnavailable', HOSTILE)
    await complete(await pollActivity(PLACEMENT))
    await schedule('2', 'advanceEpisode', HOST)
    const episode = await storePlaced('o__n-1', ownerRun)

    const queued = await read(episode)
    assert.equal(queued.shows, 'server', queued.why ?? '')
    assert.deepEqual(
      queued.executions.map(({ runId, status, closedMs }) => [runId, status, closedMs]),
      [[ownerRun, 'RUNNING', null]],
    )
    const [opened, step] = queued.executions[0]?.activities ?? []
    assert.deepEqual([opened?.activity, opened?.attempt, opened?.state], ['openSandbox', 2, 'completed'])
    assert.deepEqual(opened?.failure, { code: 'Sandbox.EngineUnavailable', message: HOSTILE.slice(0, 2_000) })
    assert.deepEqual(
      [step?.activity, step?.queue, step?.state, step?.startedMs, step?.closedMs],
      ['advanceEpisode', HOST, 'queued', null, null],
    )

    const token = await pollActivity(HOST)
    const running = await eventually(async () => {
      const page = await read(episode)
      assert.equal(page.executions[0]?.activities[1]?.state, 'started')
      return page
    })
    const begun = running.executions[0]?.activities[1]
    assert.ok(begun?.startedMs !== null && (begun?.startedMs ?? 0) >= (step?.scheduledMs ?? Infinity))
    const page = (await pages.read(`episode/${episode}`)) as EpisodePage
    const { bars } = joinHistory({ history: running, timeline: timelineOf(page) })
    assert.deepEqual(
      bars.map(({ what }) => what),
      ['retries', 'placing', 'queue', 'playing'],
    )
    await complete(token)
    const ended = await eventually(async () => {
      const page = await read(episode)
      assert.equal(page.executions[0]?.activities[1]?.state, 'completed')
      return page
    })
    assert.ok((ended.executions[0]?.activities[1]?.closedMs ?? 0) >= (begun?.startedMs ?? Infinity))
  })

  test('hides the times of another execution of the same name', async () => {
    await startWorkflow('train/r/dapo-1/0001/task/o__n-2/ep/00')
    const episode = await storePlaced('o__n-2', '00000000-0000-4000-8000-000000000000')
    const page = await read(episode)
    assert.deepEqual([page.shows, page.executions], ['records', []])
    assert.match(page.why ?? '', /has no history of this episode.*retains/)
  })

  test('uses the newest execution of its id for an episode without a sandbox', async () => {
    const runId = await startWorkflow('train/r/dapo-1/0001/task/o__n-3/ep/00')
    const episode = await storeEpisode(store, { run: 'r', taskId: 'o__n-3', turns: 0, hasEnded: false })
    const page = await read(episode)
    assert.deepEqual(
      page.executions.map((execution) => execution.runId),
      [runId],
    )
  })

  test('reads a long history from its beginning and counts the rest', async () => {
    const workflowId = 'train/r/dapo-1/0001/task/o__n-4/ep/00'
    await startWorkflow(workflowId)
    const handle = connection.client.workflow.getHandle(workflowId)
    for (let at = 0; at < 40; at++) await handle.signal('control', { paused: at % 2 === 0 })
    const limited = await readHistory({ connection, workflowId, deadlineMs: Date.now() + HANG_MS, maxEvents: 20 })
    assert.equal(limited?.eventsRead, 20)
    assert.ok((limited?.events ?? 0) >= 42, String(limited?.events))
    const whole = await readHistory({ connection, workflowId, deadlineMs: Date.now() + HANG_MS })
    assert.equal(whole?.marks.length, 40)
    assert.deepEqual([whole?.marks[0]?.what, whole?.marks[0]?.note], ['signal', 'control'])
  })

  test('the page of a run shows its blockers while it is open, and none once it has ended', async () => {
    const workflowId = 'train/r'
    const readBlockers = async () => (await pages.read('blockers/r')) as BlockersPage
    // The server does not know the run yet.
    assert.notEqual((await readBlockers()).why, null)
    const { client } = connection
    await client.workflow.start('trainAgent', { workflowId, taskQueue: QUEUE })
    started.push(workflowId)
    await eventually(async () => assert.ok((await readBlockers()).open !== null, (await readBlockers()).why ?? ''))
    await client.workflow.getHandle(workflowId).terminate('seen')
    await eventually(async () => {
      const { why, open } = await readBlockers()
      assert.deepEqual([why, open], [null, null])
    })
  })

  test('without a server, or with a silent one, the page shows its records and the reason', async () => {
    const episode = await storePlaced('o__n-5', 'any')
    const absent = temporalSource(() => connect({ address: '127.0.0.1:1', env: {} }))
    const refused = await read(episode, createPages(store, absent))
    assert.equal(refused.shows, 'records')
    assert.match(refused.why ?? '', /No Temporal server answers at 127\.0\.0\.1:1/)
    await absent.close()

    const mute = await startSilentServer()
    const silent = temporalSource(() => connect({ address: `127.0.0.1:${mute.port}`, env: {} }))
    try {
      const late = await read(episode, createPages(store, silent))
      assert.equal(late.shows, 'records')
      assert.match(late.why ?? '', /did not answer within 5 s/)
    } finally {
      mute.close()
      await silent.close()
    }
    const alone = await read(episode, createPages(store))
    assert.match(alone.why ?? '', /asks no server/)
  })
})
