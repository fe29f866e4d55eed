/** Runs of any size with any text, stored like a worker's, for tests and measurements of the viewer. */
import { encodeSafetensors } from '../../src/adapters/trainer-job/batch/safetensors.ts'
import { writeBatch } from '../../src/adapters/trainer-job/batch/batch-writer.ts'
import { assembleTrajectory, type Trajectory } from '../../src/adapters/trainer-job/batch/trajectory.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord, EpisodeSpec, EpisodeStart, ObservationRecord } from '../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys, policyKeys, runKeys, suiteKeys } from '../../src/contracts/keys.ts'
import type { ChatMessage } from '../../src/contracts/policy.types.ts'
import { createSlots } from '../../src/platform/limiter.ts'
import { makeVerdict } from './evaluation-records.ts'
import { makeRecord } from './episode-records.ts'
import { makeAction, makeEpisode, makeTrainingRecipe } from './training-records.ts'
import type { RunClaim } from '../../src/contracts/run-records.types.ts'
import { putPart, wholeRecord } from './record-examples.ts'

export const VIEWED_SUITE = 'suite'

const STATE = { cwd: '/testbed', environment: '', umask: '022', openFile: null, windowTop: 0, submitted: false }

export async function storeViewedRun(store: ArtifactStore, run: string): Promise<void> {
  const claim: Omit<RunClaim, 'firstExecutionRunId'> = {
    schema: 'longhaul.run/1',
    run,
    kind: 'train',
    recipe: 'test',
    recipeHash: 'ab',
    workflowId: `train/${run}`,
  }
  await putPart(store, runKeys.claim(run), claim)
  await putPart(store, runKeys.recipe(run), {
    schema: 'longhaul.recipe/1',
    hash: 'abcdef0123456789',
    recipe: makeTrainingRecipe(),
  })
}

export interface StoreEpisodeInput extends Partial<EpisodeRecord> {
  run: string
  /** Texts of agent and environment, the same in each turn. */
  reply?: string
  command?: string
  output?: string
  statement?: string
  patch?: string
  /** The first prompt of an episode that a chat endpoint plays. */
  messages?: ChatMessage[]
  /** False: the episode is still being played, and its last turn has no answer. */
  hasEnded?: boolean
}

/** @returns the episode's id */
export async function storeEpisode(store: ArtifactStore, input: StoreEpisodeInput): Promise<string> {
  const { reply, command, output, statement, patch, messages, hasEnded, ...fields } = input
  const record = makeRecord({ stage: 'dapo-1', ...fields })
  const { run, stage, iteration, taskId, index, policy } = record
  const episode = episodeId({ run, stage, iteration, taskId, index })
  const spec: Pick<
    EpisodeSpec,
    'schema' | 'episode' | 'suiteHash' | 'policy' | 'taskId' | 'scaffold' | 'demonstration'
  > = {
    schema: 'longhaul.episode/1',
    episode,
    suiteHash: VIEWED_SUITE,
    policy,
    taskId,
    scaffold: 'paper',
    demonstration: false,
  }
  await putPart(store, episodeKeys.spec(episode), spec)
  const task = suiteKeys.task(VIEWED_SUITE, taskId)
  await store.claimRecord(task, wholeRecord(task, makeTask(taskId, statement ?? 'Repair it.')))
  const start: EpisodeStart = {
    schema: 'longhaul.episode-start/1',
    episode,
    state: STATE,
    promptIds: [257, 1, 2, 3],
    trainingPromptIds: null,
    ...(messages === undefined ? {} : { messages }),
    startedAtMs: 1_000,
  }
  await putPart(store, episodeKeys.start(episode), start)
  for (let turn = 0; turn < record.turns; turn++) {
    await storeAction(store, record, turn, { text: reply ?? `reply ${turn}`, command: command ?? `ls ${turn}` })
    if (hasEnded !== false || turn < record.turns - 1)
      await storeObservation(store, episode, turn, output ?? `out ${turn}`)
  }
  if (hasEnded === false) return episode
  await store.put(episodeKeys.patch(episode), Buffer.from(patch ?? PATCH))
  await putPart(store, episodeKeys.capture(episode), { schema: 'longhaul.capture/1', episode })
  if (record.verdict !== null) await putPart(store, episodeKeys.verdict(episode), makeVerdict(record, record.verdict))
  await putPart(store, episodeKeys.result(episode), record)
  return episode
}

export async function storeAction(
  store: ArtifactStore,
  record: EpisodeRecord,
  turn: number,
  said: { text: string; command: string },
): Promise<void> {
  const at = { sampledAtMs: 1_600 + 1_000 * turn, sampleMs: 400 }
  await putPart(store, episodeKeys.action(record.episode, turn), { ...makeAction(record, turn), ...said, ...at })
}

export async function storeObservation(
  store: ArtifactStore,
  episode: string,
  turn: number,
  text: string,
): Promise<void> {
  const execution = { exitCode: 0, reason: 'exit' as const, outputBytes: text.length, wallMs: 300, oomKilled: false }
  const record: ObservationRecord = {
    schema: 'longhaul.observation/1',
    episode,
    turn,
    text,
    execution,
    state: STATE,
    observedAtMs: 2_500 + 1_000 * turn,
  }
  await putPart(store, episodeKeys.observation(episode, turn), record)
}

const PATCH = `diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -1,2 +1,2 @@
 def f():
-    return 1
+    return 2
`

function makeTask(taskId: string, statement: string): object {
  return {
    taskId,
    repo: 'owner/name',
    repoDir: '/testbed',
    statement,
    failToPass: ['tests/test_m.py::test_f'],
    passToPass: ['tests/test_m.py::test_g'],
    gradingProfile: 'fork-4.0.3',
    installConfig: { install: null, testCmd: 'pytest -rA', logParser: 'parse_log_pytest' },
    rowHash: taskId,
    createdAt: null,
  }
}

/** Stores only the last record of finished episodes, eight attempts per task (`o__n-0000`, …), which suffices for an index. */
export async function storeRecords(
  store: ArtifactStore,
  { run, episodes, turns }: { run: string; episodes: number; turns: number },
): Promise<void> {
  const slots = createSlots(16)
  const records = Array.from({ length: episodes }, (_, at) =>
    makeRecord({ run, stage: 'dapo-1', turns, taskId: `o__n-${String(at >> 3).padStart(4, '0')}`, index: at & 7 }),
  )
  await Promise.all(
    records.map((record) => slots.use(() => putPart(store, episodeKeys.result(record.episode), record))),
  )
}

export interface StoreTokensInput {
  run: string
  iteration: number
  taskId: string
  /** The tokenizer's spelling of ids, if known. */
  pieces?: Record<string, number>
}

/**
 * Stores two trained attempts at a task, in a batch with the trainer's stored figures. The last reply of the second has no command:
 * it was sampled but is not trained on. The file's order differs from the table's.
 */
export async function storeTokens(store: ArtifactStore, input: StoreTokensInput): Promise<Trajectory[]> {
  const { run, iteration, taskId, pieces } = input
  const episodes = [0, 1].map((index) => makeEpisode({ run, stage: 'dapo-1', iteration, taskId, index }))
  const last = episodes[1]?.actions.at(-1)
  if (last !== undefined) last.formatError = 'cannot_extract_command'
  const trajectories = episodes.map((episode) => assembleTrajectory({ ...episode, trainFormatErrors: false }))
  for (const { record } of episodes) await putPart(store, episodeKeys.result(record.episode), record)
  const version = 'v000000-aaaaaaaa'
  await writeBatch({
    store,
    directory: runKeys.batch(run, 'dapo-1', iteration, 0),
    kind: 'dapo',
    run,
    iteration,
    rows: trajectories
      .map((trajectory, member) => ({ trajectory, group: taskId, member, advantage: member === 0 ? 0.5 : -1.25 }))
      .toReversed(),
    minibatches: [2],
    groups: [{ id: taskId, taskId, rewards: [1, 0], outcomes: [1, 0], infra: 0, dropped: null }],
    policies: [{ version, manifestSha256: '' }],
    tokenizerSha256: '',
    vocabSize: 300,
    maxRowTokens: 256,
    sampling: {
      temperature: 1,
      topP: 1,
      topK: -1,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
    },
    totalSteps: 1,
    advantage: { delta: 1e-6, filter: 'shaped' },
  })
  if (pieces !== undefined) {
    const file = Buffer.from(JSON.stringify({ model: { vocab: pieces } }))
    await store.put(`${policyKeys.directory(version)}/tokenizer.json`, file)
  }
  return trajectories
}

/** The trainer's figures before its first step, in the file's order; zero outside of the loss. */
export async function storeProximal(
  store: ArtifactStore,
  { run, iteration }: Pick<StoreTokensInput, 'run' | 'iteration'>,
  trajectories: readonly Trajectory[],
  ratioOf: (place: number) => number,
): Promise<void> {
  const proximal = trajectories
    .toReversed()
    .flatMap(({ lossMask, logprobs }) =>
      [...lossMask].map((one, place) => (one === 1 ? Math.log(ratioOf(place)) + (logprobs[place] ?? 0) : 0)),
    )
  const data = new Float32Array(proximal)
  const tensor = { name: 'prox_logprobs', dtype: 'F32' as const, shape: [data.length], data }
  await store.put(`${runKeys.job(run, 'dapo-1', iteration, 0)}/prox/prox.safetensors`, encodeSafetensors([tensor]))
}
