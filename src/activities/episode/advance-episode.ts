import { randomBytes } from 'node:crypto'
import type { EpisodePhase, EpisodeProgress } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type {
  ActionRecord,
  Disposition,
  DispositionRecord,
  EpisodeSpec,
  EpisodeStart,
  ObservationRecord,
} from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, TurnResult } from '../../contracts/sandbox.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { noteOnSpan } from '../../platform/current-trace.ts'
import { firstMessage, formatErrorText, observationText, parseReply } from '../../scaffold/observation.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import type { HostDoor } from '../runtime/host-door.ts'
import { requireNewestPlacement } from './claim-placement.ts'
import type { KeptTranscripts } from './kept-transcripts.ts'
import { isBeyondContext, type EpisodeSetting, type SampledTurn, type Sampler } from './samplers.ts'
import { renewing, EpisodeWorld, compare, isRepeatable, takeOver, wantsTree } from './episode-world.ts'
import { committedTurns, currentState, readTurns, spentMs, type Transcript } from './transcript.ts'

/** How long one activity attempt works before it reports. Short, so that a lost attempt costs little. */
const STEP_BUDGET_MS = 5 * 60_000

export interface AdvanceDependencies {
  store: ArtifactStore
  sampler: Sampler
  sandbox: SandboxHost
  /** Looks up everything that the episode's spec names. */
  resolve(spec: EpisodeSpec): Promise<EpisodeSetting>
  seedOf(identity: EpisodeInput & { recipeSeed: number; turn: number }): number
  now(): number
  /** Milliseconds of a monotonic clock. */
  stopwatch(): number
  /** How often the sandbox's lease is renewed during a step. */
  renewEveryMs: number
  /** Checked before each turn. @default stays on this host until the step is over */
  door?: Pick<HostDoor, 'isStopping' | 'isMoving'>
  /** @default none, each step reads the turns before it */
  kept?: KeptTranscripts
}

export interface AdvanceInput extends EpisodeInput {
  sandbox: SandboxHandle
  step: number
  /** The placement's number within this execution; `sandbox.placement` counts across all executions. */
  placement: number
}

/**
 * Plays up to `turnsPerStep` turns. The action is durable before it reaches the sandbox, and the observation is durable before the next
 * action is sampled. An attempt after a crash reads the records and continues; the sandbox's journal tells what was running. A crash
 * loses at most one sample.
 */
export async function advanceEpisode(
  deps: AdvanceDependencies,
  input: AdvanceInput,
  scope: ActivityScope,
): Promise<EpisodeProgress> {
  const { signal } = scope
  // A policy server or a store that is slow or unavailable must not cost the sandbox, whose lease counts the time since the last request.
  const renew = (): Promise<void> => deps.sandbox.renew(input.sandbox, signal)
  return renewing({ renew, everyMs: deps.renewEveryMs, signal }, async () => {
    const player = await EpisodePlayer.resume(deps, input, scope)
    noteOnSpan({ 'longhaul.firstTurn': player.turns })
    const progress = await playStep(deps, player)
    player.keepFor(progress)
    return progress
  })
}

async function playStep(deps: AdvanceDependencies, player: EpisodePlayer): Promise<EpisodeProgress> {
  const startedMs = deps.stopwatch()
  const until = player.turns + player.spec.limits.turnsPerStep
  while (player.turns < until && deps.stopwatch() - startedMs < STEP_BUDGET_MS) {
    const ended = await player.ended()
    if (ended === null) {
      // Ends the step without a failure, so that a stopping worker costs the episode no attempt.
      if (deps.door?.isStopping === true) break
      if (deps.door?.isMoving === true && player.mayMove()) {
        return { turns: player.turns, disposition: null, moving: true }
      }
    }
    const disposition = ended ?? (await player.playTurn())
    if (disposition !== null) return { turns: player.turns, disposition: await player.settle(disposition) }
  }
  return { turns: player.turns, disposition: await player.settleIfEnded() }
}

type Seen = Pick<ObservationRecord, 'text' | 'execution' | 'state'>

class EpisodePlayer {
  readonly spec: EpisodeSpec
  readonly #deps: AdvanceDependencies
  readonly #input: AdvanceInput
  readonly #scope: ActivityScope
  readonly #setting: EpisodeSetting
  readonly #transcript: Transcript
  readonly #world: EpisodeWorld

  private constructor(parts: {
    deps: AdvanceDependencies
    input: AdvanceInput
    scope: ActivityScope
    spec: EpisodeSpec
    setting: EpisodeSetting
    transcript: Transcript
  }) {
    this.#deps = parts.deps
    this.#input = parts.input
    this.#scope = parts.scope
    this.spec = parts.spec
    this.#setting = parts.setting
    this.#transcript = parts.transcript
    this.#world = new EpisodeWorld({
      store: parts.deps.store,
      host: parts.deps.sandbox,
      sandbox: parts.input.sandbox,
      episode: parts.spec.episode,
      turns: parts.transcript.turns,
      fence: fenceOf(parts.input, parts.scope.order),
      timeoutMs: parts.spec.limits.commandTimeoutMs,
      signal: parts.scope.signal,
      mayLackTurns: parts.input.step === 1,
      onReplay: (turn) => this.#beat(turn, 'resuming'),
    })
  }

  static async resume(deps: AdvanceDependencies, input: AdvanceInput, scope: ActivityScope): Promise<EpisodePlayer> {
    const episode = episodeId(input)
    scope.beat({ turn: 0, phase: 'resuming' satisfies EpisodePhase })
    // A step that directly follows another of the same placement continues where that one ended, and its first turn performs its own
    // check. Any other attempt may find the sandbox in any state, even if no further turn is played before the capture.
    const follows = input.step > 1 && scope.order === 1
    const kept = deps.kept?.take({ owner: scope.owner, sandbox: input.sandbox }) ?? null
    const known = follows ? kept : null
    const spec = known?.spec ?? (await deps.store.readRecord<EpisodeSpec>(episodeKeys.spec(episode)))
    if (spec === null) {
      throw new LonghaulError({ code: 'Artifact.Missing', message: 'The episode has no spec', details: { episode } })
    }
    const setting = await deps.resolve(spec)
    const at = { spec, setting, sandbox: input.sandbox, signal: scope.signal }
    // Before the turns are read, so that an earlier attempt adds at most the one that runs.
    if (!follows) {
      const { sandbox, signal } = at
      await takeOver({ host: deps.sandbox, sandbox, fence: fenceOf(input, scope.order), signal })
    }
    const start = known?.transcript.start ?? (await startOf(deps, at))
    const transcript: Transcript = { start, turns: await readTurns(deps.store, episode, known?.transcript.turns) }
    const player = new EpisodePlayer({ deps, input, scope, spec, setting, transcript })
    if (!follows) await player.#world.ensureCurrent()
    return player
  }

  /** Keeps the transcript for the next step or for the capture; otherwise nothing more is requested of this sandbox. */
  keepFor({ disposition, moving }: EpisodeProgress): void {
    if (moving === true || (disposition !== null && disposition !== 'submitted')) return
    const { start, turns } = this.#transcript
    const committed = turns.filter(({ observation }) => observation !== null)
    this.#deps.kept?.keep(
      { owner: this.#scope.owner, sandbox: this.#input.sandbox },
      { spec: this.spec, transcript: { start, turns: committed } },
    )
  }

  get turns(): number {
    return committedTurns(this.#transcript)
  }

  /** Returns whether a sandbox on another host can be rebuilt up to this turn. */
  mayMove(): boolean {
    return this.#transcript.turns.every(({ observation }) => observation === null || isRepeatable(observation))
  }

  /** Returns the disposition if the episode needs no further turn. */
  async ended(): Promise<Disposition | null> {
    const { limits } = this.spec
    if (currentState(this.#transcript).submitted) return 'submitted'
    if (this.turns >= limits.maxTurns) return 'turn-limit'
    if (spentMs(this.#transcript) > limits.episodeTimeoutMs) return 'time-limit'
    return null
  }

  /** Commits one turn. Returns a disposition only if the turn no longer fits. */
  async playTurn(): Promise<Disposition | null> {
    const turn = this.turns
    const open = this.#transcript.turns[turn]?.action ?? (await this.#sampleAndHash(turn))
    if (open === 'context-limit' || isBeyondContext(open, this.spec.limits)) return 'context-limit'
    await this.#noteTree(turn - 1, open.command ?? '')
    const observation = await this.#observe(open)
    this.#transcript.turns[turn] = { action: open, observation }
    return null
  }

  async settleIfEnded(): Promise<Disposition | null> {
    const disposition = await this.ended()
    return disposition === null ? null : this.settle(disposition)
  }

  /** Records the disposition. The first record counts, so a repeated attempt whose clock has advanced cannot change it. */
  async settle(disposition: Disposition): Promise<Disposition> {
    const { record } = await this.#deps.store.claimRecord<DispositionRecord>(
      episodeKeys.disposition(this.spec.episode),
      {
        schema: 'longhaul.disposition/1',
        episode: this.spec.episode,
        disposition,
        turns: this.turns,
      },
    )
    return record.disposition
  }

  /** Hashes the tree while the policy samples, because the sandbox is idle then. */
  async #sampleAndHash(turn: number): Promise<ActionRecord | 'context-limit'> {
    const [sampled] = await Promise.all([this.#sample(turn), this.#noteTree(turn - 1, null)])
    return sampled
  }

  async #noteTree(turn: number, next: string | null): Promise<void> {
    if (wantsTree({ turn, next })) await this.#world.noteTree(turn)
  }

  async #sample(turn: number): Promise<ActionRecord | 'context-limit'> {
    const { episode } = this.spec
    this.#beat(turn, 'sampling')
    const seed = this.#deps.seedOf({ ...this.#input, recipeSeed: this.spec.recipeSeed, turn })
    const sampledAtMs = this.#deps.now()
    const startedMs = this.#deps.stopwatch()
    const answer = await this.#askPolicy(turn, seed)
    if (answer === null) return 'context-limit'
    // A stopped server and an unavailable store cost the policy nothing, so neither may count against the time of its episode.
    const { tookMs = this.#deps.stopwatch() - startedMs, ...sampled } = answer
    const { command, formatError } = parseReply(sampled.text)
    const { record } = await this.#deps.store.claimRecord<ActionRecord>(episodeKeys.action(episode, turn), {
      schema: 'longhaul.action/1',
      episode,
      turn,
      ...sampled,
      seed,
      formatError,
      command,
      token: randomBytes(8).toString('hex'),
      sampledAtMs,
      sampleMs: Math.round(tookMs),
    })
    return record
  }

  #askPolicy(turn: number, seed: number): Promise<SampledTurn | null> {
    const { store, sampler } = this.#deps
    const { signal } = this.#scope
    const transcript = this.#transcript
    const recorded = async (): Promise<ActionRecord | null> => {
      await requireNewestPlacement(store, this.#input)
      // Last, so that the request follows it at once.
      return store.readRecord<ActionRecord>(episodeKeys.action(this.spec.episode, turn))
    }
    return sampler.sample({ spec: this.spec, setting: this.#setting, transcript, turn, seed, signal, recorded })
  }

  async #observe(action: ActionRecord): Promise<ObservationRecord> {
    const { episode } = this.spec
    const result = action.command === null ? null : await this.#execute(action, action.command)
    const seen = result === null ? this.#refuse(action) : this.#describe(result)
    this.#beat(action.turn, 'recording')
    const { record, won } = await this.#deps.store.claimRecord<ObservationRecord>(
      episodeKeys.observation(episode, action.turn),
      { schema: 'longhaul.observation/1', episode, turn: action.turn, ...seen, observedAtMs: this.#deps.now() },
    )
    // Another attempt won, perhaps in another sandbox. The policy sees that attempt's record, so this sandbox must agree with it.
    if (!won && result !== null) compare(episode, record, result)
    return record
  }

  #refuse(action: ActionRecord): Seen {
    const { profile, task } = this.#setting
    const state = currentState(this.#transcript)
    const error = action.formatError ?? 'cannot_extract_command'
    return { text: formatErrorText({ profile, state, repoDir: task.repoDir, error }), execution: null, state }
  }

  #execute(action: ActionRecord, command: string): Promise<TurnResult> {
    this.#beat(action.turn, 'executing')
    // A limit in bytes, although the profile counts characters: a character has at most four bytes, so no displayed text is cut here.
    return this.#world.run(action, command, this.#setting.profile.observationChars * 4)
  }

  #describe(result: TurnResult): Seen {
    const { profile, task } = this.#setting
    const { exitCode, reason, outputBytes, wallMs, oomKilled, state, network } = result
    return {
      text: observationText({
        profile,
        repoDir: task.repoDir,
        result,
        timeoutMs: this.spec.limits.commandTimeoutMs,
      }),
      execution: {
        exitCode,
        reason,
        outputBytes,
        wallMs,
        oomKilled,
        ...(network === undefined ? {} : { network }),
      },
      state,
    }
  }

  #beat(turn: number, phase: EpisodePhase): void {
    this.#scope.beat({ turn, phase })
  }
}

/** Increases over placements, steps and attempts, so that a worker that wakes up late has a lower fence. */
export function fenceOf({ sandbox, placement, step }: AdvanceInput, order: number): number {
  return (sandbox.placement ?? placement) * 1_000_000 + step * 1_000 + Math.min(order, 999)
}

/** Reads or creates the episode's start: initial state and first prompt, rendered once and stored. */
async function startOf(
  deps: AdvanceDependencies,
  at: { spec: EpisodeSpec; setting: EpisodeSetting; sandbox: SandboxHandle; signal: AbortSignal },
): Promise<EpisodeStart> {
  const { spec, setting } = at
  const key = episodeKeys.start(spec.episode)
  const stored = await deps.store.readRecord<EpisodeStart>(key)
  if (stored !== null) return stored
  const state = await deps.sandbox.initialState(at.sandbox, at.signal)
  const { task, profile } = setting
  const message = firstMessage({ profile, state, repoDir: task.repoDir, statement: task.statement })
  const { record } = await deps.store.claimRecord<EpisodeStart>(key, {
    schema: 'longhaul.episode-start/1',
    episode: spec.episode,
    state,
    ...(await deps.sampler.firstPrompt({ spec, setting, firstMessage: message, signal: at.signal })),
    startedAtMs: deps.now(),
  })
  return record
}
