import { mkdtemp, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'

import { lastRunBefore, readTurns } from '../../../src/activities/episode/transcript.ts'
import { type AdvanceDependencies, advanceEpisode } from '../../../src/activities/episode/advance-episode.ts'
import { createTokenSampler } from '../../../src/activities/episode/samplers.ts'
import { gradeSubmission } from '../../../src/activities/grading/grade-submission.ts'
import { openSandbox } from '../../../src/activities/episode/open-sandbox.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import { ensureBaseImage } from '../../../src/adapters/docker/images/base-image.ts'
import { connectEngine, type Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { buildTaskImage } from '../../../src/adapters/docker/images/images.ts'
import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import { removeContainer } from '../../../src/adapters/docker/container/create-container.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord, ObservationRecord, VerdictRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../../src/contracts/keys.ts'
import type { SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import type { PolicyClient } from '../../../src/contracts/policy.types.ts'
import type { Task } from '../../../src/contracts/tasks.types.ts'
import type { EpisodeInput } from '../../../src/contracts/workflows.types.ts'
import { isValidEpisode } from '../../../src/domain/ledger/episode-fates.ts'
import { type Reward, rewardOf } from '../../../src/domain/rewards/rewards.ts'
import { chatml } from '../../../src/scaffold/render.ts'
import { scaffoldProfile } from '../../../src/scaffold/profiles.ts'
import { createLeakyRepository, type LeakyRepository } from './repository.ts'

export interface AttackLimits {
  memoryMiB?: number
  pids?: number
  commandTimeoutS?: number
  diskGiB?: number
}

export interface AttackOptions {
  limits?: AttackLimits
  /** Inspects the sandbox from outside after the submission, before the patch is captured. */
  beforeCapture?: (sandbox: SandboxHandle) => Promise<void>
  /** Inspects it after the capture, before the sandbox is closed. */
  afterCapture?: (sandbox: SandboxHandle, patch: string) => Promise<void>
}

export interface AttackResult {
  /** What the agent saw, turn by turn. */
  seen: string[]
  turns: ObservationRecord[]
  patch: string
  verdict: VerdictRecord
  record: EpisodeRecord
  /** Null if the episode has no reward. */
  reward: Reward | null
}

export interface AttackWorld {
  engine: Engine
  host: DockerSandboxHost
  store: ArtifactStore
  repository: LeakyRepository
  task: Task
  run: string
  /** Plays a scripted agent through a whole episode on real parts: open, turns, capture, grading, record. */
  attack(commands: string[], options?: AttackOptions): Promise<AttackResult>
  dispose(): Promise<void>
}

const REWARD = {
  pass: 1,
  fail: 0,
  unsubmitted: 0,
  penalty: { start: 50, end: 60, min: 0 },
  unaudited: 'allow',
} as const
const never = new AbortController().signal

/** Engine, store, grading and the activities' code are real; the policy is scripted and Temporal is absent. */
export async function createAttackWorld(topic: string): Promise<AttackWorld> {
  const engine = await connectEngine()
  const userCache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'longhaul')
  const cacheDir = join(process.env['LONGHAUL_CACHE'] ?? userCache, 'images')
  const base = await ensureBaseImage({ engine, cacheDir, log: console.error })
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-attack-'))
  const store = createDirectoryStore({ root: folder })
  const repository = createLeakyRepository()
  const run = `attack-${topic}-${process.pid}`
  const image = `longhaul-test/${topic}:${process.pid}`
  await buildTaskImage({ engine, base: base.tag, tag: image, repoTar: repository.tar, labels: {} })
  const host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  const task = taskOf(repository, image)
  let next = 0
  return {
    engine,
    host,
    store,
    repository,
    task,
    run,
    attack: (commands, options = {}) => {
      next += 1
      return play({ store, host, task, run, index: next, commands, options })
    },
    async dispose() {
      host.dispose()
      for (const { name } of await listSandboxes({ engine, run })) await removeContainer({ engine, name })
      const source = await engine.docker.getImage(image).inspect()
      const scrubbed = await engine.docker.listImages({ filters: { reference: ['longhaul/scrubbed'] } })
      // Only this world's images, because other tests run concurrently.
      for (const { Id } of scrubbed.filter(({ ParentId }) => ParentId === source.Id)) {
        await engine.docker.getImage(Id).remove({ force: true })
      }
      await engine.docker.getImage(image).remove({ force: true })
      await rm(folder, { recursive: true })
    },
  }
}

function taskOf({ baseCommit, goldPatch, testPatch }: LeakyRepository, image: string): Task {
  return {
    taskId: 'calc__calc-1',
    repo: 'calc/calc',
    baseCommit,
    statement: 'add() subtracts.',
    goldPatch,
    testPatch,
    failToPass: ['tests/test_calc.py::test_add'],
    passToPass: ['tests/test_calc.py::test_double'],
    gradingProfile: 'fork-4.0.3',
    installConfig: {
      install: null,
      testCmd: 'python3 -B -m pytest -rA -p no:cacheprovider',
      logParser: 'parse_log_pytest',
    },
    image,
    repoDir: '/testbed',
    // Not synthetic, so its history is removed for agents.
    synthetic: null,
    createdAt: null,
    rowHash: '0'.repeat(64),
  }
}

interface PlayInput {
  store: ArtifactStore
  host: DockerSandboxHost
  task: Task
  run: string
  index: number
  commands: string[]
  options: AttackOptions
}

async function play(input: PlayInput): Promise<AttackResult> {
  const { store, host, task, run, index, commands, options } = input
  const { limits = {}, beforeCapture, afterCapture } = options
  const { recipe } = await loadRecipe({ name: 'attack', text: recipeText(limits) })
  const script = [...commands, 'submit']
  const identity: EpisodeInput = {
    run,
    stage: 'eval-attack',
    iteration: 0,
    policy: 'v000000-script',
    suite: 'suite',
    taskId: task.taskId,
    index,
  }
  const episode = episodeId(identity)
  const tasks = async () => task
  const ensureImage = async () => undefined
  const opening = { ...identity, placement: 1, owner: 'attack', ownerRun: 'attack' }
  const sandbox = await openSandbox(
    { store, sandbox: host, recipe, tasks, ensureImage, leaseMs: 120_000, hostId: 'test-host' },
    opening,
    never,
  )
  try {
    const deps: AdvanceDependencies = {
      store,
      sandbox: host,
      sampler: createTokenSampler({ policy: scriptedPolicy(script), stopTokenIds: async () => [0] }),
      resolve: async ({ scaffold }) => ({
        task,
        profile: scaffoldProfile(scaffold),
        format: chatml,
      }),
      seedOf: () => 1,
      now: Date.now,
      stopwatch: () => performance.now(),
      renewEveryMs: 60_000,
    }
    const owner = { owner: 'attack', ownerRun: 'attack' }
    const scope = { signal: never, attempt: 1, order: 1, owner, startedMs: 0, failing: null, beat: () => undefined }
    const { disposition } = await advanceEpisode(deps, { ...identity, sandbox, step: 1, placement: 1 }, scope)
    const after = lastRunBefore(await readTurns(store, episode), Number.POSITIVE_INFINITY)
    await beforeCapture?.(sandbox)
    const captured = await host.capture(sandbox, { mode: recipe.scaffold.submit.capture, after }, never)
    await afterCapture?.(sandbox, Buffer.from(captured.patch).toString('latin1'))
    const patch = await store.put(episodeKeys.patch(episode), captured.patch)
    const grading = { store, sandbox: host, ensureImage, recipe, tasks, hostId: 'attacks' }
    const attempt = { attempt: 1, isLastAttempt: false }
    await gradeSubmission(
      grading,
      { ...identity, disposition: disposition ?? 'turn-limit', patch, owner: 'attack', ownerRun: 'attack', ...attempt },
      never,
    )
    return await readResult(store, episode, captured.patch, script.length)
  } finally {
    await host.close(sandbox)
  }
}

async function readResult(
  store: ArtifactStore,
  episode: string,
  patch: Uint8Array,
  length: number,
): Promise<AttackResult> {
  const turns: ObservationRecord[] = []
  for (let turn = 0; turn < length; turn += 1) {
    const observation = await store.readRecord<ObservationRecord>(episodeKeys.observation(episode, turn))
    if (observation !== null) turns.push(observation)
  }
  const record = (await store.readRecord<EpisodeRecord>(episodeKeys.result(episode))) as EpisodeRecord
  const verdict = (await store.readRecord<VerdictRecord>(episodeKeys.verdict(episode))) as VerdictRecord
  return {
    turns,
    seen: turns.map(({ text }) => text),
    patch: Buffer.from(patch).toString('latin1'),
    verdict,
    record,
    reward: isValidEpisode(record) ? rewardOf({ ...record, rule: REWARD }) : null,
  }
}

/** One command per turn, in order; each byte is a token. */
export function scriptedPolicy(script: readonly string[]): PolicyClient {
  let turn = 0
  const unused = async (): Promise<never> => {
    throw new Error('a scripted policy has no such answer')
  }
  return {
    sample: async ({ policy }) => {
      const text = `\`\`\`\`\`command\n${script[turn] ?? 'submit'}\n\`\`\`\`\``
      turn += 1
      return { ids: [1], logprobs: [0], text, finishReason: 'stop', policy }
    },
    tokenize: async () => [1],
    load: unused,
    score: unused,
    release: unused,
    served: unused,
  }
}

export function recipeText({ memoryMiB = 256, pids = 64, commandTimeoutS = 30, diskGiB = 10 }: AttackLimits): string {
  return JSON.stringify({
    model: { base: 'script' },
    data: {
      train: { kind: 'rows', path: 'none.jsonl' },
      heldOut: { kind: 'rows', path: 'none.jsonl' },
      gate: { repeats: 1 },
    },
    scaffold: { submit: { capture: 'all' }, limits: { commandTimeoutS } },
    sandbox: { request: { cpu: 0.1, memGiB: 0.05 }, limit: { cpu: 1, memGiB: memoryMiB / 1024, pids, diskGiB } },
    rollout: { turnsPerStep: 40 },
    evaluate: { attempts: 1, maxTurns: 40, context: 100_000 },
  })
}
