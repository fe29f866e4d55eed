/** What keeps a host from grading never becomes a reward: another host grades, or the episode is excluded with the reason. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Docker from 'dockerode'
import { recordUngraded, gradeSubmission } from '../../src/activities/grading/grade-submission.ts'
import { createImageProvider } from '../../src/activities/gate/task-images.ts'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { loadTasks } from '../../src/adapters/datasets/load-tasks.ts'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { imageExists } from '../../src/adapters/docker/images/images.ts'
import { createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import type { EpisodeRecord, GradingAttemptRecord, VerdictRecord } from '../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../src/contracts/keys.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'
import type { EpisodeInput } from '../../src/contracts/workflows.types.ts'
import { exclusionOf } from '../../src/domain/ledger/episode-fates.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { startTestRegistry, type TestRegistry } from '../support/test-registry.ts'
import { codeOf, never } from './sandbox-fixture.ts'
import { putPart } from '../support/record-examples.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const store = createDirectoryStore({ root })
const { cacheDir } = stackPaths()
let engine: Engine
let registry: TestRegistry
let recipe: Recipe
let task: Task

before(async () => {
  engine = await connectEngine()
  registry = await startTestRegistry()
  ;({ recipe } = await loadRecipe({ name: 'mini', dirs: ['recipes'] }))
  const source = {
    kind: 'synthetic',
    family: 'one-wrong-line',
    seed: 77_001,
    split: 'eval',
    count: 1,
    offset: 0,
  } as const
  task = (await loadTasks(source))[0]!
})

after(async () => {
  await registry.close()
  await engine.docker
    .getImage(task.image)
    .remove({ force: true })
    .catch(() => undefined)
  rmSync(root, { recursive: true })
})

function input(index: number): EpisodeInput {
  const common = { run: 'graded', stage: 'eval-x', iteration: 1, policy: 'v000000-00000000', suite: 's' }
  return { ...common, taskId: task.taskId, index }
}

/** One attempt on one host; `task` may be another than the one with an image. */
async function grade(
  index: number,
  options: { hostId: string; attempt: number; task?: Task; engine?: Engine; isReady?: boolean },
) {
  const { hostId, attempt, task: graded = task, engine: used = engine, isReady = false } = options
  const sandbox = createDockerSandboxHost({ engine: used, hostId, hostQueue: 'q' })
  const ensureImage = isReady
    ? async () => undefined
    : createImageProvider({ engine: used, cacheDir, log: () => undefined })
  const patch = await store.put(episodeKeys.patch(episodeId(input(index))), Buffer.from(task.goldPatch))
  await settle(index)
  try {
    return await gradeSubmission(
      { store, sandbox, recipe, ensureImage, tasks: async () => graded, hostId },
      {
        ...input(index),
        disposition: 'submitted',
        patch,
        owner: 'test',
        ownerRun: '',
        attempt,
        isLastAttempt: attempt >= 3,
      },
      never,
    )
  } finally {
    sandbox.dispose()
  }
}

/** The ending of an episode without turns. */
async function settle(index: number): Promise<void> {
  const episode = episodeId(input(index))
  const ended = { schema: 'longhaul.disposition/1', episode, disposition: 'submitted', turns: 0 }
  await putPart(store, episodeKeys.disposition(episode), ended)
}

const record = <T extends object>(key: string): Promise<T> => readOrThrow<T>(store, key)

test('a host without the image fails its attempt as retryable, and the next host grades', async () => {
  const elsewhere = { ...task, synthetic: null, image: `${registry.reference('only-elsewhere')}:1` }
  await assert.rejects(
    grade(0, { hostId: 'a', attempt: 1, task: elsewhere }),
    (error: Error & { retryable?: boolean }) => {
      assert.deepEqual([codeOf(error), error.retryable], ['Grading.Failed', true])
      assert.match(error.message, /host a .*only-elsewhere/)
      return true
    },
  )
  const failed = await record<GradingAttemptRecord>(episodeKeys.gradingAttempt(episodeId(input(0)), 1))
  assert.deepEqual([failed.hostId, failed.failure], ['a', 'Sandbox.ImageMissing'])
  const { verdict } = await grade(0, { hostId: 'b', attempt: 2 })
  assert.equal(verdict, 'resolved')
  const { image } = await record<VerdictRecord>(episodeKeys.verdict(episodeId(input(0))))
  assert.match(image, /^sha256:/)
})

test('an episode is excluded without a reward after its last attempt when no host has the image', async () => {
  const nowhere = { ...task, synthetic: null, image: `${registry.reference('nowhere')}:1` }
  const { verdict } = await grade(1, { hostId: 'c', attempt: 3, task: nowhere })
  assert.equal(verdict, 'could-not-grade')
  const result = await record<EpisodeRecord>(episodeKeys.result(episodeId(input(1))))
  assert.deepEqual(
    [result.disposition, result.verdictReason, exclusionOf(result)],
    ['submitted', 'image', 'could-not-grade'],
  )
})

test('an episode is excluded with the code when every engine is away, and a late grader changes nothing', async () => {
  const gone = { ...engine, docker: new Docker({ socketPath: '/nowhere/docker.sock' }) }
  await assert.rejects(
    grade(2, { hostId: 'a', attempt: 2, engine: gone, isReady: true }),
    (error) => codeOf(error) === 'Grading.Failed',
  )
  const { verdict } = await grade(2, { hostId: 'b', attempt: 3, engine: gone, isReady: true })
  assert.equal(verdict, 'could-not-grade')
  assert.equal((await grade(2, { hostId: 'c', attempt: 3 })).verdict, 'could-not-grade')
  const { verdictReason } = await record<EpisodeRecord>(episodeKeys.result(episodeId(input(2))))
  assert.equal(verdictReason, 'Sandbox.EngineUnavailable')
})

test('lost graders exclude a submitted episode unless one of them wrote its verdict', async () => {
  await settle(4)
  const silent = await recordUngraded(store, { ...input(3), disposition: 'submitted', failure: 'Sandbox.Lost' })
  assert.deepEqual([silent.verdict, silent.failure], ['could-not-grade', 'Sandbox.Lost'])
  const verdict = await record<VerdictRecord>(episodeKeys.verdict(episodeId(input(0))))
  await store.claimRecord(episodeKeys.verdict(episodeId(input(4))), { ...verdict, episode: episodeId(input(4)) })
  const heard = await recordUngraded(store, { ...input(4), disposition: 'submitted', failure: 'Sandbox.Lost' })
  assert.equal(heard.verdict, 'resolved')
  const lost = await recordUngraded(store, { ...input(5), disposition: 'infra', failure: 'Sandbox.Lost' })
  assert.equal(lost.verdict, null)
})

test('an image that vanished between two tasks is built again', async () => {
  const ensureImage = createImageProvider({ engine, cacheDir, log: () => undefined })
  await ensureImage(task, never)
  await engine.docker.getImage(task.image).remove({ force: true })
  await ensureImage(task, never)
  assert.equal(await imageExists({ engine, image: task.image }), true)
})
