/** A worker stands still, another takes its episode over, and the first wakes up: it must not ask the policy for what is recorded. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { type AdvanceDependencies, advanceEpisode } from '../../src/activities/episode/advance-episode.ts'
import { type EpisodeSetting, createTokenSampler } from '../../src/activities/episode/samplers.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { EpisodeSpec } from '../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../src/contracts/keys.ts'
import type { PolicyClient } from '../../src/contracts/policy.types.ts'
import type { SandboxHandle, SandboxHost } from '../../src/contracts/sandbox.types.ts'
import type { EpisodeInput } from '../../src/contracts/workflows.types.ts'
import { chatml } from '../../src/scaffold/render.ts'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { turnsOf } from '../support/run-records.ts'
import { createSandboxFixture, never, type SandboxFixture } from './sandbox-fixture.ts'
import { putPart } from '../support/record-examples.ts'

let fixture: SandboxFixture
let folder: string
let store: ArtifactStore

before(async () => {
  fixture = await createSandboxFixture('late', { 'a.txt': 'a\n' })
  folder = await mkdtemp(join(tmpdir(), 'longhaul-late-'))
  store = createDirectoryStore({ root: folder })
})

after(async () => {
  await fixture.dispose()
  await rm(folder, { recursive: true, force: true })
})

interface Worker {
  identity: EpisodeInput
  sandbox: SandboxHandle
  /** The later attempt has the higher fence. */
  attempt: number
  policy: PolicyClient
  host: SandboxHost
}

/** How the first worker is held up in the middle of its first turn's end. */
const MOMENTS: Record<string, (worker: Worker, takeOver: () => Promise<unknown>) => Worker> = {
  'its command had run': (worker, takeOver) => ({
    ...worker,
    host: holdUp(worker.host, { method: 'runTurn', call: 1, by: takeOver }),
  }),
  // The first prompt is tokenised before.
  'its next prompt was being made': (worker, takeOver) => ({
    ...worker,
    policy: holdUp(worker.policy, { method: 'tokenize', call: 2, by: takeOver }),
  }),
}

for (const [index, [moment, heldUp]] of Object.entries(MOMENTS).entries()) {
  test(`a worker that stalled when ${moment} samples no turn that another worker has recorded meanwhile`, async () => {
    const { identity, sampled, workerCalled } = await openEpisode(index)
    const takeOver = (): Promise<unknown> => play(workerCalled('second', 2))
    await assert.rejects(play(heldUp(workerCalled('first', 1), takeOver)), { code: 'Sandbox.Fenced' })
    assert.deepEqual(sampled, ['first 0', 'second 1', 'second 2'])
    const turns = await turnsOf(store, episodeId(identity))
    assert.deepEqual(
      turns.map(({ observation }) => observation?.state.submitted),
      [false, false, true],
    )
  })
}

test('an attempt that only resumes ends the earlier one, which samples no second turn', async () => {
  const { sampled, workerCalled } = await openEpisode(9)
  const resumed = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const second = workerCalled('second', 2)
  const waiting: PolicyClient = {
    ...second.policy,
    sample: async (request, signal) => {
      resumed.resolve()
      await go.promise
      return second.policy.sample(request, signal)
    },
  }
  let successor: Promise<unknown> = Promise.resolve()
  const first = workerCalled('first', 1)
  const standsStill = holdUp(first.policy, {
    method: 'tokenize',
    call: 2,
    by: async () => {
      successor = play({ ...second, policy: waiting })
      await resumed.promise
    },
  })
  // The second one has sampled nothing yet, so only the sandbox can tell the first that it has been replaced.
  try {
    await assert.rejects(play({ ...first, policy: standsStill }), { code: 'Sandbox.Fenced' })
  } finally {
    go.resolve()
    await successor
  }
  assert.deepEqual(sampled, ['first 0', 'first 1', 'second 1', 'second 2'])
})

/** An episode in an open sandbox, and workers that play it and tell what they sample. */
async function openEpisode(index: number) {
  const identity = await putSpec(index)
  const { host } = fixture
  const sandbox = await host.open(fixture.openInput({ episode: episodeId(identity) }), never)
  const sampled: string[] = []
  const workerCalled = (name: string, attempt: number): Worker => {
    const policy = scriptedPolicy((turn) => sampled.push(`${name} ${turn}`))
    return { identity, sandbox, attempt, policy, host }
  }
  return { identity, sampled, workerCalled }
}

function play({ identity, sandbox, attempt, policy, host }: Worker): Promise<unknown> {
  const deps: AdvanceDependencies = {
    store,
    sandbox: host,
    sampler: createTokenSampler({ policy, stopTokenIds: async () => [0] }),
    resolve: async () => SETTING as EpisodeSetting,
    seedOf: () => 1,
    now: Date.now,
    stopwatch: () => performance.now(),
    renewEveryMs: 60_000,
  }
  const owner = { owner: '', ownerRun: '' }
  const scope = { signal: never, attempt, order: attempt, owner, startedMs: 0, failing: null, beat: () => undefined }
  return advanceEpisode(deps, { ...identity, sandbox, step: 1, placement: 1 }, scope)
}

async function putSpec(index: number): Promise<EpisodeInput> {
  const identity = { run: fixture.run, stage: 'late', iteration: 0, taskId: 'late', index }
  const input = { ...identity, policy: 'v000000-script', suite: 'suite' }
  const spec: EpisodeSpec = {
    schema: 'longhaul.episode/1',
    ...identity,
    episode: episodeId(input),
    recipeSeed: 1,
    suiteHash: input.suite,
    policy: input.policy,
    scaffold: 'paper',
    demonstration: false,
    sampling: NEUTRAL_SAMPLING,
    limits: {
      maxTurns: 10,
      contextTokens: 10_000,
      maxTokensPerTurn: 100,
      commandTimeoutMs: 20_000,
      episodeTimeoutMs: 600_000,
      turnsPerStep: 10,
    },
    capture: 'all',
  }
  await putPart(store, episodeKeys.spec(spec.episode), spec)
  return input
}

const SETTING = {
  task: { repoDir: '/testbed', statement: 'Say so.' },
  profile: scaffoldProfile('paper'),
  format: chatml,
}

/** `echo`, `echo`, `submit`. A text is a token and so is a reply, so the length of a prompt tells its turn. */
function scriptedPolicy(note: (turn: number) => void): PolicyClient {
  return {
    tokenize: async () => [1],
    async sample({ policy, promptIds }) {
      const turn = (promptIds.length - 1) / 2
      note(turn)
      const text = `\`\`\`\`\`command\n${turn < 2 ? `echo ${turn} >> a.txt` : 'submit'}\n\`\`\`\`\``
      return { ids: [1], logprobs: [0], text, finishReason: 'stop', policy }
    },
  } as Partial<PolicyClient> as PolicyClient
}

/** The n-th call of the method is answered after `by` has finished: another worker has done the same work meanwhile. */
function holdUp<T extends object>(object: T, at: { method: keyof T; call: number; by: () => Promise<unknown> }): T {
  let calls = 0
  return new Proxy(object, {
    get(target, name) {
      const method = Reflect.get(target, name) as (...input: unknown[]) => unknown
      if (name !== at.method) return method.bind(target)
      return async (...input: unknown[]) => {
        const answer = await method.apply(target, input)
        calls += 1
        if (calls === at.call) await at.by()
        return answer
      }
    },
  })
}
