import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readFileSync } from 'node:fs'
import { EPISODE, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { describeHistory, HISTORIES, readHistories, type RecordedHistory, replayAll } from '../support/replay.ts'
import { buildWorkflowBundle } from '../support/workflow-bundle.ts'
import { createWorkflowDriver } from '../support/workflow-driver.ts'

/** Types that the Temporal UI can start, read from the one file that lists them. */
function workflowTypes(): string[] {
  const index = readFileSync(new URL('../../src/workflows/index.ts', import.meta.url), 'utf8')
  return [...index.matchAll(/export \{([^}]*)\}/g)]
    .flatMap(([, names = '']) => names.split(','))
    .map((name) => name.trim())
}

test('every recorded history replays against the current workflow code', async () => {
  const histories = readHistories()
  assert.notEqual(histories.length, 0, `Expected recorded histories in ${HISTORIES}, found none`)

  const failures = await replayAll(await buildWorkflowBundle(), histories)
  const advice = 'a running workflow would break: use patched(), or record anew and say why in docs/decisions'
  assert.deepEqual(
    failures.map(({ name, error }) => `${name}: ${error.message}`),
    [],
    advice,
  )
})

test('each workflow type has a recorded history', () => {
  const types = workflowTypes()
  assert.ok(types.includes('trainAgent') && types.length >= 8, `found only ${types.join(', ')}`)
  const recorded = new Set(readHistories().map(({ type }) => type))
  assert.deepEqual(
    types.filter((type) => !recorded.has(type)),
    [],
  )
})

async function historyOfAnEpisode(): Promise<RecordedHistory> {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline({ steps: 3 }) })
  const episode = driver.start('episode', EPISODE, { workflowId: 'ep' })
  await episode.result()
  return describeHistory('episode', episode.describe().history)
}

test('the harness passes an unchanged history and detects a changed order of commands', async () => {
  const bundle = await buildWorkflowBundle()
  const unchanged = await historyOfAnEpisode()
  assert.deepEqual(await replayAll(bundle, [unchanged]), [])

  // A history as an older version of the code would have left it: capture came before the first step.
  const changed = await historyOfAnEpisode()
  const activities = changed.history.events.flatMap((event) => event.activityTaskScheduledEventAttributes ?? [])
  const step = activities.find(({ activityType }) => activityType?.name === 'advanceEpisode')
  const capture = activities.find(({ activityType }) => activityType?.name === 'captureSubmission')
  assert.ok(step?.activityType && capture?.activityType)
  ;[step.activityType, capture.activityType] = [capture.activityType, step.activityType]

  const [failure, ...others] = await replayAll(bundle, [changed])
  assert.equal(others.length, 0)
  assert.match(failure?.error.message ?? 'no failure', /TMPRL1100|[Nn]ondeterminism/)
})

test('a bad history is named, and the others are still replayed', async () => {
  const good = await historyOfAnEpisode()
  const bad = { ...(await historyOfAnEpisode()), name: 'bad' }
  const opened = bad.history.events.find((event) => event.activityTaskScheduledEventAttributes)
  assert.ok(opened?.activityTaskScheduledEventAttributes)
  opened.activityTaskScheduledEventAttributes.activityType = { name: 'somethingElse' }

  const failures = await replayAll(await buildWorkflowBundle(), [good, bad, { ...good, name: 'last' }])
  assert.deepEqual(
    failures.map(({ name }) => name),
    ['bad'],
  )
})
