/** Runs of any size with any text, as workers would have stored them: for tests and measurements of the viewer. */
import type { RunClaim } from '../../src/activities/run/run-names.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord, EpisodeSpec, EpisodeStart, ObservationRecord } from '../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys, runKeys, suiteKeys } from '../../src/contracts/keys.ts'
import type { ChatMessage } from '../../src/contracts/policy.types.ts'
import { makeVerdict } from './evaluation-records.ts'
import { makeRecord } from './episode-records.ts'
import { makeAction, makeTrainingRecipe } from './training-records.ts'

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
  await store.putRecord(runKeys.claim(run), claim)
  await store.putRecord(runKeys.recipe(run), {
    schema: 'longhaul.recipe/1',
    hash: 'abcdef0123456789',
    recipe: makeTrainingRecipe(),
  })
}

export interface StoreEpisodeInput extends Partial<EpisodeRecord> {
  run: string
  /** What the agent and the world said, the same in each turn. */
  reply?: string
  command?: string
  output?: string
  statement?: string
  patch?: string
  /** The first prompt, of an episode that a chat endpoint plays. */
  messages?: ChatMessage[]
  /** False: it is still played, and its last turn has no answer. */
  hasEnded?: boolean
}

/** @returns its id */
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
  await store.putRecord(episodeKeys.spec(episode), spec)
  await store.claimRecord(suiteKeys.task(VIEWED_SUITE, taskId), makeTask(taskId, statement ?? 'Repair it.'))
  const start: EpisodeStart = {
    schema: 'longhaul.episode-start/1',
    episode,
    state: STATE,
    promptIds: [257, 1, 2, 3],
    trainingPromptIds: null,
    ...(messages === undefined ? {} : { messages }),
    startedAtMs: 1_000,
  }
  await store.putRecord(episodeKeys.start(episode), start)
  for (let turn = 0; turn < record.turns; turn++) {
    await storeAction(store, record, turn, { text: reply ?? `reply ${turn}`, command: command ?? `ls ${turn}` })
    if (hasEnded !== false || turn < record.turns - 1)
      await storeObservation(store, episode, turn, output ?? `out ${turn}`)
  }
  if (hasEnded === false) return episode
  await store.put(episodeKeys.patch(episode), Buffer.from(patch ?? PATCH))
  await store.putRecord(episodeKeys.capture(episode), { schema: 'longhaul.capture/1', episode })
  if (record.verdict !== null) await store.putRecord(episodeKeys.verdict(episode), makeVerdict(record, record.verdict))
  await store.putRecord(episodeKeys.result(episode), record)
  return episode
}

export async function storeAction(
  store: ArtifactStore,
  record: EpisodeRecord,
  turn: number,
  said: { text: string; command: string },
): Promise<void> {
  const at = { sampledAtMs: 2_000 + 1_000 * turn, sampleMs: 400 }
  await store.putRecord(episodeKeys.action(record.episode, turn), { ...makeAction(record, turn), ...said, ...at })
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
  await store.putRecord(episodeKeys.observation(episode, turn), record)
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
