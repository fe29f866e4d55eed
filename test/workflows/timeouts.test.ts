/**
 * How long each preset lets a run wait, who ends the wait, and with which code: played on the fake clock, one scenario or more for each.
 * `docs/timeouts.md` has the same as a table; `test/architecture/timeouts.test.ts` compares the two.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/common'
import type { FailureCode } from '../../src/contracts/failure-codes.ts'
import type { EpisodeResult } from '../../src/contracts/workflows.types.ts'
import * as presets from '../../src/workflows/activity-presets.ts'
import { type ActivityTable, failureOf, neverEnds, takes, timesOut } from '../support/activity-script.ts'
import { EPISODE, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

type Activities = ActivityTable<AllActivities>

const driverWith = (activities: Activities): Promise<WorkflowDriver> =>
  createWorkflowDriver({ activities: { ...scriptedPipeline({ steps: 1 }), ...activities } })

/** Plays one episode. */
async function episodeWith(
  activities: Activities,
): Promise<{ driver: WorkflowDriver; ended: EpisodeResult; ms: number }> {
  const driver = await driverWith(activities)
  const beganMs = driver.nowMs
  const ended = await driver.start('episode', EPISODE).result<EpisodeResult>()
  return { driver, ended, ms: driver.nowMs - beganMs }
}

const WATCH = {
  receiver: { urlVariable: 'ALARMS', secretVariable: null, template: 'json' },
  blockerMinutes: 30,
  runs: 'all',
}

/** Plays a run that fails, and says with what and when. */
async function failing(
  activities: Activities,
  {
    type = 'trainAgent',
    input = { recipe: 'demo' },
    stopped,
  }: { type?: string; input?: object; stopped?: string } = {},
): Promise<{ driver: WorkflowDriver; code: string; message: string; ms: number }> {
  const driver = await driverWith(activities)
  if (stopped !== undefined) driver.stopQueue(stopped)
  const beganMs = driver.nowMs
  try {
    await driver.start(type, input).result()
  } catch (error) {
    assert.ok(error instanceof ApplicationFailure, String(error))
    return { driver, code: error.type ?? '', message: error.message, ms: driver.nowMs - beganMs }
  }
  return assert.fail('the run did not fail')
}

/** Within what back-off and the steps around it add. */
function assertAbout(ms: number, expected: number, slackMs = 5 * MINUTE): void {
  assert.ok(ms >= expected && ms < expected + slackMs, `${ms / MINUTE} minutes, expected ${expected / MINUTE}`)
}

const recorded = (driver: WorkflowDriver): unknown => driver.callsOf('recordUngraded').at(-1)?.input

const SCENARIOS: Record<keyof typeof presets, Record<string, () => Promise<void>>> = {
  CONTROL: {
    'a run fails after one attempt of 70 minutes when bookkeeping never ends': async () => {
      const { driver, code, message, ms } = await failing({ planIteration: () => neverEnds() })
      assert.deepEqual([code, driver.callsOf('planIteration').length], ['Worker.Stalled', 1])
      assert.match(message, /planIteration did not end within its limit/)
      assertAbout(ms, 70 * MINUTE)
    },
    'a run fails after a week without a worker': async () => {
      const { code, ms } = await failing({}, { stopped: 'control' })
      assert.equal(code, 'Worker.Missing')
      assertAbout(ms, 7 * DAY)
    },
  },
  SLOW_CONTROL: {
    'a run fails after one attempt of 100 minutes when a suite is never finished': async () => {
      const { driver, code, ms } = await failing({ prepareSuite: () => neverEnds() })
      assert.deepEqual([code, driver.callsOf('prepareSuite').length], ['Worker.Stalled', 1])
      assertAbout(ms, 100 * MINUTE)
    },
  },
  ATTENDANCE: {
    'a host is removed after ten minutes without a worker': async () => {
      const driver = await driverWith({ attendHost: () => undefined })
      driver.stopQueue('sandbox.x.1')
      const beganMs = driver.nowMs
      const holder = { queue: 'sandbox.x.1', engine: 'e' }
      await driver.start('host', { host: 'x', holder, drain: null }).result()
      assertAbout(driver.nowMs - beganMs, 10 * MINUTE)
    },
    'an attempt of a silent worker ends after a day, and the next one starts': async () => {
      const driver = await driverWith({ attendHost: () => neverEnds() })
      const holder = { queue: 'sandbox.x.1', engine: 'e' }
      driver.start('host', { host: 'x', holder, drain: null })
      const beganMs = driver.nowMs
      await driver.runUntil(() => driver.callsOf('attendHost').length === 2)
      assertAbout(driver.nowMs - beganMs, DAY)
    },
  },
  PLACEMENT: {
    'an episode is played after every host was full for six days': async () => {
      const { openSandbox } = scriptedPipeline()
      const { ended } = await episodeWith({
        openSandbox: (input, call) => takes(6 * DAY, () => openSandbox?.(input, call) as never),
      })
      assert.equal(ended.verdict, 'unresolved')
    },
    'an episode is lost and replaced after one hanging attempt of a week': async () => {
      const { driver, ended, ms } = await episodeWith({ openSandbox: () => neverEnds() })
      assert.deepEqual(
        [ended.disposition, ended.failure, driver.callsOf('openSandbox').length],
        ['infra', 'Worker.Stalled', 1],
      )
      assertAbout(ms, 7 * DAY)
    },
    'a run fails after a week without a sandbox host, and no further episode waits as long': async () => {
      const { code, ms } = await failing({}, { stopped: 'placement' })
      assert.equal(code, 'Worker.Missing')
      assertAbout(ms, 7 * DAY, HOUR)
    },
  },
  GRADING: {
    'endless tests give a verdict after two attempts of half an hour': async () => {
      const { driver, ended, ms } = await episodeWith({
        gradeSubmission: (input, { attempt }) =>
          takes(31 * MINUTE, () => {
            if (attempt === 1) throw failureOf('Grading.Failed')
            return scriptedVerdict(input.disposition)
          }),
      })
      assert.deepEqual([ended.verdict, ended.failure], ['unresolved', null])
      assert.equal(driver.callsOf('gradeSubmission').length, 2)
      assertAbout(ms, 62 * MINUTE)
    },
    'the fifth attempt gives the verdict after four infrastructure failures': async () => {
      const { ended } = await episodeWith({
        gradeSubmission: (input, { attempt }) => {
          if (attempt < 5) throw failureOf('Sandbox.EngineUnavailable')
          return scriptedVerdict(input.disposition)
        },
      })
      assert.equal(ended.verdict, 'unresolved')
    },
    'a hanging attempt is not repeated, and the work is recorded as not graded': async () => {
      const { driver, ms } = await episodeWith({ gradeSubmission: () => timesOut('START_TO_CLOSE') })
      assert.equal(driver.callsOf('gradeSubmission').length, 1)
      assert.deepEqual(recorded(driver), { ...EPISODE, disposition: 'submitted', failure: 'Worker.Stalled' })
      assertAbout(ms, 18 * HOUR)
    },
    'a grading waits for its slot while twenty others run their tests': async () => {
      const { ended } = await episodeWith({
        gradeSubmission: ({ disposition }) => takes(4 * HOUR, () => scriptedVerdict(disposition)),
      })
      assert.equal(ended.verdict, 'unresolved')
    },
  },
  IMAGES: {
    'gates start after five hanging image checks of two minutes': async () => {
      const driver = await createWorkflowDriver({
        activities: { ...scriptedPipeline({ steps: 1 }), checkImages: () => neverEnds() },
      })
      const startedMs = driver.nowMs
      await driver.start('gateSuite', {}).result()
      assert.equal(driver.callsOf('checkImages').length, 5)
      assertAbout(driver.nowMs - startedMs, 10 * MINUTE)
    },
  },
  GATING: {
    'a run fails after five hanging gate attempts of nineteen hours, each with its records': async () => {
      const { driver, code, ms } = await failing({ gateTask: () => neverEnds() }, { type: 'gateSuite' })
      assert.equal(code, 'Worker.Stalled')
      assert.equal(Math.max(...driver.callsOf('gateTask').map(({ attempt }) => attempt)), 5)
      assertAbout(ms, 95 * HOUR)
    },
  },
  HOST: {
    'an episode is placed again two minutes after its host is gone': async () => {
      let isFirst = true
      const { advanceEpisode } = scriptedPipeline()
      const { driver, ended, ms } = await episodeWith({
        advanceEpisode: (input, call) => {
          if (!isFirst) return advanceEpisode?.(input, call) as never
          isFirst = false
          return timesOut('SCHEDULE_TO_START')
        },
      })
      assert.equal(ended.verdict, 'unresolved')
      assert.equal(driver.callsOf('openSandbox').length, 2)
      assertAbout(ms, 2 * MINUTE)
    },
    'an episode is lost and replaced after four attempts while its policy server is away': async () => {
      const { driver, ended, ms } = await episodeWith({
        advanceEpisode: () =>
          takes(5 * MINUTE, () => {
            throw failureOf('Model.Unavailable')
          }),
      })
      assert.deepEqual([ended.disposition, ended.failure], ['infra', 'Model.Unavailable'])
      assert.equal(driver.callsOf('advanceEpisode').length, 4)
      assertAbout(ms, 20 * MINUTE)
    },
    'an episode survives the longest replay and the longest last turn': async () => {
      const { advanceEpisode } = scriptedPipeline()
      const { ended } = await episodeWith({
        advanceEpisode: (input, call) => takes(5 * HOUR + 55 * MINUTE, () => advanceEpisode?.(input, call) as never),
      })
      assert.equal(ended.verdict, 'unresolved')
    },
    'an episode is lost after one hanging attempt of six hours': async () => {
      const { ended, ms } = await episodeWith({ advanceEpisode: () => neverEnds() })
      assert.deepEqual([ended.disposition, ended.failure], ['infra', 'Worker.Stalled'])
      assertAbout(ms, 6 * HOUR)
    },
  },
  CLOSING: {
    'a verdict stays when a sandbox does not close in ten attempts of two minutes': async () => {
      const { driver, ended, ms } = await episodeWith({ closeSandbox: () => neverEnds() })
      assert.equal(ended.verdict, 'unresolved')
      assert.equal(driver.callsOf('closeSandbox').length, 10)
      assertAbout(ms, 20 * MINUTE)
    },
  },
  TRAINING: {
    'a run continues after a job waited a week for nodes and trained for six days': async () => {
      const { runTrainingJob } = scriptedPipeline()
      const driver = await driverWith({
        runTrainingJob: (input, call) => takes(13 * DAY, () => runTrainingJob?.(input, call) as never),
      })
      await driver.start('trainAgent', { recipe: 'demo' }).result()
      assert.ok(driver.callsOf('runTrainingJob').every(({ attempt }) => attempt === 1))
    },
    "a run fails with the trainer's code after twenty failed attempts": async () => {
      const { driver, code } = await failing({
        runTrainingJob: () => {
          throw failureOf('Trainer.Failed')
        },
      })
      assert.deepEqual([code, driver.callsOf('runTrainingJob').length], ['Trainer.Failed', 20])
    },
    'a run fails after fourteen days of a hanging job': async () => {
      const { driver, code, ms } = await failing({ runTrainingJob: () => neverEnds() })
      assert.deepEqual([code, driver.callsOf('runTrainingJob').length], ['Worker.Stalled', 1])
      assertAbout(ms, 14 * DAY, HOUR)
    },
  },
  PUBLISHING: {
    'a run continues when a person restarts the server after four days': async () => {
      let servedFromMs = Number.POSITIVE_INFINITY
      let isFirst = true
      const driver: WorkflowDriver = await driverWith({
        publishPolicy: (_, { atMs }) => {
          if (isFirst) servedFromMs = atMs + 4 * DAY
          isFirst = false
          if (atMs < servedFromMs) throw failureOf('Model.NotServed')
        },
      })
      await driver.start('trainAgent', { recipe: 'demo' }).result()
      assert.ok(driver.nowMs >= servedFromMs)
    },
    'a run fails after two weeks and names the policy that was never served': async () => {
      const { code, message, ms } = await failing({
        publishPolicy: () => {
          throw failureOf('Model.NotServed', 'Restart it with --served-model-name v000001-0123abcd')
        },
      })
      assert.equal(code, 'Model.NotServed')
      assert.match(message, /--served-model-name v000001-0123abcd/)
      assertAbout(ms, 14 * DAY - 2 * MINUTE)
    },
    'a run waits for a server that another run holds as long as for a person': async () => {
      const { publishPolicy } = scriptedPipeline()
      const driver = await driverWith({
        publishPolicy: (input, call) => {
          if (call.attempt < 200) throw failureOf('Model.Busy', 'All 2 places are leased [holders=train/a]')
          return publishPolicy?.(input, call)
        },
      })
      await driver.start('trainAgent', { recipe: 'demo' }).result()
    },
    'the code of earlier attempts is reported when the two weeks end amid an attempt': async () => {
      const heartbeat = {
        failing: { code: 'Model.NotServed' as FailureCode, message: 'serve v000001', sinceMs: 0, tries: 9 },
      }
      const { code, message } = await failing({ publishPolicy: () => timesOut('SCHEDULE_TO_CLOSE', heartbeat) })
      assert.deepEqual([code, message], ['Model.NotServed', 'serve v000001'])
    },
    'a server that is silent beyond its timeout ends the run at once': async () => {
      const { driver, code } = await failing({
        publishPolicy: () => {
          throw failureOf('Model.Unreachable')
        },
      })
      assert.deepEqual([code, driver.callsOf('publishPolicy').length], ['Model.Unreachable', 1])
    },
  },
  ALARMS: {
    'the watch fails with the code after six attempts of each alarm to a silent receiver': async () => {
      const { driver, code, ms } = await failing(
        {
          findAlarms: () => ({ alarms: ['one', 'two'], givenUp: 0, notLookedAt: 0 }),
          sendAlarm: ({ alarm }) => {
            if (alarm === 'one') throw failureOf('Alarm.Unavailable')
            return { sent: true }
          },
        },
        { type: 'watch', input: WATCH },
      )
      assert.deepEqual(
        [code, driver.callsOf('sendAlarm').map(({ input }) => (input as { alarm: string }).alarm)],
        ['Alarm.Unavailable', ['one', 'one', 'one', 'one', 'one', 'one', 'two']],
      )
      assertAbout(ms, MINUTE)
    },
    'a refused address is requested once': async () => {
      const refuses: Activities = {
        sendAlarm: () => {
          throw failureOf('Alarm.Refused')
        },
      }
      const { driver, code } = await failing(refuses, { type: 'watch', input: WATCH })
      assert.deepEqual([code, driver.callsOf('sendAlarm').length], ['Alarm.Refused', 1])
    },
  },
  ARTIFACTS: {
    'a run fails after one attempt of 130 minutes when a batch is never finished': async () => {
      const { driver, code, ms } = await failing({ buildBatch: () => neverEnds() })
      assert.deepEqual([code, driver.callsOf('buildBatch').length], ['Worker.Stalled', 1])
      assertAbout(ms, 130 * MINUTE, HOUR)
    },
  },
}

function scriptedVerdict(disposition: EpisodeResult['disposition']): EpisodeResult {
  const { gradeSubmission } = scriptedPipeline()
  const good = gradeSubmission?.({ ...EPISODE, disposition } as never, {} as never) as EpisodeResult
  return { ...good, verdict: 'unresolved' }
}

test('every preset has a scenario', () => {
  assert.deepEqual(Object.keys(SCENARIOS).toSorted(), Object.keys(presets).toSorted())
  for (const [name, scenarios] of Object.entries(SCENARIOS)) assert.ok(Object.keys(scenarios).length > 0, name)
})

for (const [preset, scenarios] of Object.entries(SCENARIOS)) {
  for (const [title, play] of Object.entries(scenarios)) test(`${preset}: ${title}`, play)
}
