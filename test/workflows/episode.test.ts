import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { EpisodeResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes, timesOut } from '../support/activity-script.ts'
import { artifact, EPISODE, HOST_QUEUE, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver } from '../support/workflow-driver.ts'

async function playEpisode(overrides: ActivityTable<AllActivities> = {}) {
  const driver = await createWorkflowDriver({ activities: { ...scriptedPipeline(), ...overrides } })
  return { driver, episode: driver.start('episode', EPISODE, { workflowId: 'ep' }) }
}

test('an episode that submits is captured on its host, graded anywhere and closed', async () => {
  const { driver, episode } = await playEpisode()
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'submitted')
  assert.equal(result.turns, 16)
  assert.deepEqual(
    driver.calls.map(({ type, taskQueue }) => [type, taskQueue]),
    [
      ['openSandbox', 'placement'],
      ['advanceEpisode', HOST_QUEUE],
      ['advanceEpisode', HOST_QUEUE],
      ['captureSubmission', HOST_QUEUE],
      ['closeSandbox', HOST_QUEUE],
      ['gradeSubmission', 'sandbox'],
    ],
  )
  assert.deepEqual(
    driver.callsOf('advanceEpisode').map(({ input }) => (input as { step: number }).step),
    [1, 2],
  )
  assert.equal(episode.describe().searchAttributes.Turns, 16)
})

test('a sandbox waits half a day for its place on full hosts in one attempt, and the episode is played', async () => {
  const { driver, episode } = await playEpisode({
    openSandbox: (input) => takes(12 * 3_600_000, sandboxHandle(input)),
  })
  const result = await episode.result<EpisodeResult>()
  assert.equal(result.disposition, 'submitted')
  assert.deepEqual(
    driver.callsOf('openSandbox').map(({ attempt }) => attempt),
    [1],
  )
})

test('an episode that ends at a limit is graded without a captured patch', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: () => ({ turns: 40, disposition: 'turn-limit' }),
  })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'turn-limit')
  assert.deepEqual(
    driver.callsOf('gradeSubmission').map(({ input }) => (input as { patch: unknown }).patch),
    [null],
  )
  assert.equal(driver.callsOf('closeSandbox').length, 1)
})

test('the same sandbox continues when its worker dies and comes back within the limits', async () => {
  // The queue carries the machine's boot id, not the worker process's, so a restarted worker polls the same queue: the
  // second attempt must run there instead of a new placement.
  let killed = false
  const { driver, episode } = await playEpisode({
    advanceEpisode: ({ step }, { attempt }) => {
      if (step === 2 && attempt === 1 && !killed) {
        killed = true
        driver.stopQueue(HOST_QUEUE)
      }
      return { turns: step * 8, disposition: step < 3 ? null : 'submitted' }
    },
  })
  await driver.runUntil(() => killed)
  await driver.advance(60_000)
  await driver.startQueue(HOST_QUEUE)
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'submitted')
  assert.equal(driver.callsOf('openSandbox').length, 1)
  assert.deepEqual(
    driver.callsOf('advanceEpisode').map(({ input, attempt }) => [(input as { step: number }).step, attempt]),
    [
      [1, 1],
      [2, 1],
      [2, 2],
      [3, 1],
    ],
  )
})

test('the episode is placed on another host when the waiting attempt of a lost host times out', async () => {
  const { driver, episode } = await playEpisode({
    openSandbox: (input) => sandboxHandle(input, `sandbox.host-${input.placement}.boot`),
    advanceEpisode: ({ step, sandbox }) => {
      if (sandbox.hostQueue === 'sandbox.host-1.boot') driver.stopQueue(sandbox.hostQueue)
      return { turns: step * 8, disposition: step < 2 ? null : 'submitted' }
    },
  })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'submitted')
  assert.deepEqual(
    driver.callsOf('openSandbox').map(({ input }) => (input as { placement: number }).placement),
    [1, 2],
  )
  assert.ok(driver.callsOf('gradeSubmission').length === 1, 'graded once')
  // closeSandbox of the dead host never found a worker: only the second placement's was an attempt.
  assert.deepEqual(
    driver.callsOf('closeSandbox').map(({ taskQueue }) => taskQueue),
    ['sandbox.host-2.boot'],
  )
})

for (const timeout of ['HEARTBEAT', 'SCHEDULE_TO_START'] as const) {
  test(`an episode whose placements all end by a ${timeout} timeout is infra after three, without a verdict`, async () => {
    const { driver, episode } = await playEpisode({ advanceEpisode: () => timesOut(timeout) })
    const result = await episode.result<EpisodeResult>()

    assert.equal(result.disposition, 'infra')
    assert.equal(result.failure, 'Sandbox.Lost')
    assert.equal(result.verdict, null)
    assert.equal(driver.callsOf('openSandbox').length, 3)
    assert.equal(driver.callsOf('closeSandbox').length, 3)
    assert.equal(driver.callsOf('gradeSubmission').length, 0)
  })
}

test('a lost sandbox is placed again at once and not retried', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: ({ step, sandbox }) => {
      if (sandbox.name.endsWith('-p1')) throw failureOf('Sandbox.Lost')
      return { turns: step * 8, disposition: 'submitted' }
    },
  })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'submitted')
  assert.equal(driver.callsOf('openSandbox').length, 2)
  assert.equal(driver.callsOf('advanceEpisode').length, 2)
})

test('a permanent infra failure ends the episode as infra with its code', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: () => {
      throw failureOf('Artifact.Conflict')
    },
  })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'infra')
  assert.equal(result.failure, 'Artifact.Conflict')
  assert.equal(driver.callsOf('openSandbox').length, 1)
  assert.equal(driver.callsOf('closeSandbox').length, 1)
})

test('a retryable failure is retried by the activity, and the workflow never sees it', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: ({ step }, { attempt }) => {
      if (attempt < 3) throw failureOf('Model.RateLimited')
      return { turns: step * 8, disposition: 'submitted' }
    },
  })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.disposition, 'submitted')
  assert.deepEqual(
    driver.callsOf('advanceEpisode').map(({ attempt }) => attempt),
    [1, 2, 3],
  )
})

test('a configuration failure fails the episode with its code, closes the sandbox and retries nothing', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: () => {
      throw failureOf('Model.NoTokenIds', 'The server ignores return_token_ids')
    },
  })
  await assert.rejects(episode.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Model.NoTokenIds')
    assert.equal(error.nonRetryable, true)
    assert.match(error.message, /return_token_ids/)
    return true
  })
  assert.equal(driver.callsOf('advanceEpisode').length, 1)
  assert.equal(driver.callsOf('closeSandbox').length, 1)
})

test('a cancel in the middle of a step stops it, closes the sandbox and is recorded', async () => {
  const { driver, episode } = await playEpisode({ advanceEpisode: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 1)
  episode.cancel()
  await assert.rejects(episode.result(), CancelledFailure)

  assert.equal(driver.callsOf('closeSandbox').length, 1)
  assert.deepEqual(
    driver.callsOf('recordUngraded').map(({ input }) => (input as { disposition: string }).disposition),
    ['cancelled'],
  )
  assert.equal(driver.callsOf('gradeSubmission').length, 0)
})

test('a cancel while the sandbox closes lets the close finish once', async () => {
  let closed = 0
  const { driver, episode } = await playEpisode({
    closeSandbox: () =>
      takes(5_000, () => {
        closed++
      }),
  })
  await driver.runUntil(() => driver.callsOf('closeSandbox').length === 1)
  episode.cancel()
  await assert.rejects(episode.result(), CancelledFailure)

  assert.equal(closed, 1)
})

test('a sandbox that opened just as the cancel arrived is closed too', async () => {
  // The story: placement has created the container, its answer and the cancel race. The workflow must not drop the handle.
  const { driver, episode } = await playEpisode({
    openSandbox: (input) => takes(5_000, sandboxHandle(input), { ignoresCancel: true }),
  })
  await driver.runUntil(() => driver.callsOf('openSandbox').length === 1)
  episode.cancel()
  await assert.rejects(episode.result(), CancelledFailure)

  assert.equal(driver.callsOf('closeSandbox').length, 1)
  assert.equal(driver.callsOf('advanceEpisode').length, 0)
})

test('a sandbox that cannot be closed does not change the result of its episode', async () => {
  const { driver, episode } = await playEpisode({ closeSandbox: () => timesOut('SCHEDULE_TO_START') })
  const result = await episode.result<EpisodeResult>()

  assert.equal(result.verdict, 'unresolved')
  assert.equal(episode.describe().logs.filter(({ level }) => level === 'warn').length, 1)
  assert.equal(driver.callsOf('gradeSubmission').length, 1)
})

test('an episode that an earlier execution played and captured is only graded, without a sandbox', async () => {
  const patch = artifact('patch.diff')
  const { driver, episode } = await playEpisode({
    openSandbox: () => ({ kind: 'ended', disposition: 'submitted', patch }),
  })
  const result = await episode.result<EpisodeResult>()
  assert.equal(result.verdict, 'unresolved')
  assert.deepEqual(
    driver.calls.map(({ type }) => type),
    ['openSandbox', 'gradeSubmission'],
  )
  assert.deepEqual(
    driver.callsOf('gradeSubmission').map(({ input }) => (input as { patch: unknown }).patch),
    [patch],
  )
})

test('a result of an earlier execution is returned as it was, without any other activity', async () => {
  const recorded: EpisodeResult = {
    episode: 'e',
    disposition: 'cancelled',
    verdict: null,
    turns: 2,
    failure: null,
    recalled: true,
  }
  const { driver, episode } = await playEpisode({ openSandbox: () => ({ kind: 'result', result: recorded }) })
  assert.deepEqual(await episode.result<EpisodeResult>(), recorded)
  assert.equal(driver.calls.length, 1)
})

// The story: an episode is reset, and its new execution finds the handle of a sandbox in the history that it inherits, while attempts of
// the execution before may still be at work in that sandbox.
test('a sandbox of an earlier execution is closed, and placing the episode again counts as no loss', async () => {
  const { driver, episode } = await playEpisode({
    advanceEpisode: ({ placement, step }) => {
      if (placement <= 4) throw failureOf('Sandbox.Foreign')
      return { turns: step * 8, disposition: step < 2 ? null : 'submitted' }
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.equal(result.disposition, 'submitted')
  assert.deepEqual([driver.callsOf('openSandbox').length, driver.callsOf('closeSandbox').length], [5, 5])
})

test('an episode whose sandbox is behind the records at capture is placed again', async () => {
  const { driver, episode } = await playEpisode({
    captureSubmission: ({ sandbox }) => {
      if (sandbox.name.endsWith('p1')) throw failureOf('Sandbox.Behind')
      return artifact('patch.diff')
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.equal(result.disposition, 'submitted')
  assert.equal(driver.callsOf('openSandbox').length, 2)
})

for (const code of ['Sandbox.Ended', 'Sandbox.Fenced', 'Sandbox.JournalConflict', 'Sandbox.Behind'] as const) {
  test(`${code} once: the turns are replayed in another sandbox, and the episode continues`, async () => {
    const { driver, episode } = await playEpisode({
      advanceEpisode: ({ step, sandbox }) => {
        if (sandbox.name.endsWith('-p1')) throw failureOf(code)
        return { turns: step * 8, disposition: 'submitted' }
      },
    })
    assert.equal((await episode.result<EpisodeResult>()).disposition, 'submitted')
    assert.equal(driver.callsOf('openSandbox').length, 2)
  })

  test(`${code} again after the replay: it counts as the policy’s own doing, unresolved, without a third sandbox`, async () => {
    const { driver, episode } = await playEpisode({
      advanceEpisode: () => {
        throw failureOf(code)
      },
    })
    const result = await episode.result<EpisodeResult>()
    assert.deepEqual([result.disposition, result.verdict, result.failure], ['agent-gave-up', 'unresolved', code])
    assert.deepEqual([driver.callsOf('openSandbox').length, driver.callsOf('closeSandbox').length], [2, 2])
    assert.equal(driver.callsOf('gradeSubmission').length, 0)
  })
}

test('a failed replay counts as the policy’s own doing when the policy may have ended the sandbox', async () => {
  const { episode } = await playEpisode({
    advanceEpisode: ({ sandbox }) => {
      throw failureOf(sandbox.name.endsWith('-p1') ? 'Sandbox.Ended' : 'Sandbox.Diverged')
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.deepEqual([result.disposition, result.failure], ['agent-gave-up', 'Sandbox.Diverged'])
})

test('a failed replay after an infrastructure loss counts as infrastructure', async () => {
  const { episode } = await playEpisode({
    advanceEpisode: ({ sandbox }) => {
      throw failureOf(sandbox.name.endsWith('-p1') ? 'Sandbox.Lost' : 'Sandbox.Diverged')
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.deepEqual([result.disposition, result.failure], ['infra', 'Sandbox.Diverged'])
})

test('a sandbox that ends while it opens counts as infrastructure after three tries', async () => {
  const { driver, episode } = await playEpisode({
    openSandbox: () => {
      throw failureOf('Sandbox.Ended')
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.deepEqual([result.disposition, result.failure], ['infra', 'Sandbox.Lost'])
  assert.equal(driver.callsOf('openSandbox').length, 3)
})

test('a sandbox that ends at the capture twice counts as the policy’s failure, not as lost', async () => {
  const { driver, episode } = await playEpisode({
    captureSubmission: () => {
      throw failureOf('Sandbox.Ended')
    },
  })
  const result = await episode.result<EpisodeResult>()
  assert.deepEqual([result.disposition, result.verdict], ['agent-gave-up', 'unresolved'])
  assert.equal(driver.callsOf('captureSubmission').length, 2)
})
