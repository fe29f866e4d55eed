import { readFile, rm, stat } from 'node:fs/promises'
import { constants, hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeDirectory, rotateLog, tailOf } from '../../platform/files.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { isFree } from '../../platform/ports.ts'
import { identifyOnHost } from '../../platform/processes.ts'
import { explainStart } from '../policy-server/start-failures.ts'
import { type EngineEnd, type EngineProcess, startEngine } from './engine-process.ts'
import {
  type EnginePlan,
  type EngineState,
  type FleetFiles,
  type FleetPlan,
  leaseAgeMs,
  readPlan,
  writeJson,
} from './fleet-files.ts'

/** A plan is one small file, so frequent reads are cheap. */
const POLL_MS = 250
/** Limit of one health check. A busy engine may answer late. */
const HEALTH_MS = 10_000
/** Interval between health checks of a serving engine. */
const ASK_EVERY_MS = 5_000
/** A live engine that answers no health check for this long hangs. It is stopped and started again. */
const SILENT_MS = 10 * 60_000
/** How long to wait for a port whose last holder was just killed. */
const PORT_WAIT_MS = 5_000
/** First pause before a restart. It doubles up to the last one. */
const FIRST_PAUSE_MS = 1_000
const LAST_PAUSE_MS = 60_000
/** An engine that served this long has recovered, so its pauses start over. */
const STEADY_MS = 10 * 60_000
/** Limit on consecutive starts without a first answer, for an unknown cause. */
const MOST_FAILED_STARTS = 3
/** Limit on deaths of an engine that had answered, each sooner than `STEADY_MS`. */
const MOST_DEATHS = 10

export interface KeeperInput {
  files: FleetFiles
  /** Ends the engines, then the keeper. */
  signal: AbortSignal
  log: (line: string) => void
}

/**
 * Keeps the engines of one run according to its plan. It starts them, restarts those that die, and ends all of them if the plan is
 * removed or no worker renews the lease in time. It is a separate process, so that a worker's restart ends no engine.
 */
export async function keepEngines({ files, signal, log }: KeeperInput): Promise<void> {
  const kept = new Map<string, KeptEngine>()
  const { writeState, tell, tellAgain } = createTeller({ files, kept, log })
  await writeState()
  for (;;) {
    await tellAgain()
    const plan = signal.aborted ? null : await readPlan(files)
    const isNeeded = plan !== null && (await isLeased(files, plan, log))
    await followPlan(kept, isNeeded ? plan : null, { files, tell, log })
    if (!isNeeded) break
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
  }
  await tell()
}

async function isLeased(files: FleetFiles, { leaseMs }: FleetPlan, log: (line: string) => void): Promise<boolean> {
  const ageMs = await leaseAgeMs(files)
  if (ageMs <= leaseMs) return true
  log(`no worker has given a sign of life for ${Math.round(ageMs / 1000)} s: the engines end`)
  return false
}

type Context = { files: FleetFiles; tell: () => Promise<void>; log: (line: string) => void }

/** Ends the engines that the plan no longer names, then starts those that it names. */
async function followPlan(kept: Map<string, KeptEngine>, plan: FleetPlan | null, context: Context): Promise<void> {
  const wanted = new Map(plan?.engines.map((one) => [one.name, one]))
  const over = [...kept].filter(([name, engine]) => wanted.get(name)?.generation !== engine.generation)
  await Promise.all(
    over.map(async ([name, engine]) => {
      await engine.end()
      kept.delete(name)
    }),
  )
  if (over.length > 0) await context.tell()
  if (plan === null) return
  for (const one of wanted.values()) {
    const engine = kept.get(one.name)
    if (engine === undefined) kept.set(one.name, new KeptEngine(one, plan.startTimeoutMs, context))
    else engine.plan = one
  }
}

interface Teller {
  /** @throws if the state cannot be written */
  writeState(): Promise<void>
  /** Never rejects: on a full disk the engines that serve go on, and so does their keeper. */
  tell(): Promise<void>
  /** Tells what could not be written. */
  tellAgain(): Promise<void>
}

/** Writes states one after another, so that two renames cannot arrive in the wrong order. */
function createTeller(input: {
  files: FleetFiles
  kept: ReadonlyMap<string, KeptEngine>
  log: (line: string) => void
}): Teller {
  const { files, kept, log } = input
  const keeper = identifyOnHost(process.pid)
  let writing: Promise<void> = Promise.resolve()
  let isTold = true
  const writeState = (): Promise<void> =>
    writeJson(files.state, { keeper, engines: [...kept.values()].map(({ state }) => state) })
  const tell = (): Promise<void> => {
    writing = writing.then(writeState).then(
      () => {
        isTold = true
      },
      (error: unknown) => {
        if (isTold) log(`the state cannot be written: ${String(error)}`)
        isTold = false
      },
    )
    return writing
  }
  return { writeState, tell, tellAgain: async () => (isTold ? undefined : tell()) }
}

/** How one process of an engine ended. */
type Life = { kind: 'ended' } | { kind: 'not-started'; why: string; isFinal: boolean } | { kind: 'died'; why: string }

/** One engine in one generation, with at most one process at a time. */
class KeptEngine {
  /** The plan for the next process. */
  plan: EnginePlan
  readonly generation: number
  state: EngineState
  readonly #context: Context
  readonly #startTimeoutMs: number
  readonly #ending = new AbortController()
  readonly #done: Promise<void>

  constructor(plan: EnginePlan, startTimeoutMs: number, context: Context) {
    this.plan = plan
    this.generation = plan.generation
    this.#context = context
    this.#startTimeoutMs = startTimeoutMs
    this.state = {
      name: plan.name,
      url: plan.url,
      generation: plan.generation,
      phase: 'starting',
      sinceMs: Date.now(),
      starts: 0,
      process: null,
      problem: null,
      log: join(context.files.directory, `${plan.name}.log`),
    }
    this.#done = this.#keep()
  }

  /** Resolves when none of its processes is left. */
  async end(): Promise<void> {
    this.#ending.abort()
    await this.#done
  }

  async #keep(): Promise<void> {
    const { signal } = this.#ending
    let failedStarts = 0
    let deaths = 0
    for (;;) {
      // A training job uses its memory.
      while (this.plan.isAsleep === true && !signal.aborted) await pause(POLL_MS, signal)
      if (signal.aborted) break
      const startedMs = Date.now()
      const life = await this.#live().catch((error: unknown): Life => {
        return { kind: 'not-started', why: String(error), isFinal: false }
      })
      if (life.kind === 'ended') break
      if (Date.now() - startedMs > STEADY_MS) deaths = 0
      if (life.kind === 'died') {
        failedStarts = 0
        deaths += 1
      } else {
        failedStarts += 1
      }
      const isOver = life.kind === 'died' ? deaths >= MOST_DEATHS : life.isFinal || failedStarts >= MOST_FAILED_STARTS
      await this.#enter(isOver ? 'failed' : 'pausing', { problem: life.why })
      if (isOver) return
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (failedStarts + deaths - 1), LAST_PAUSE_MS)
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined)
    }
    await this.#enter('ended', {})
  }

  /** Runs one process from its start to its end. */
  async #live(): Promise<Life> {
    const { signal } = this.#ending
    const { files } = this.#context
    const { url, start } = this.plan
    await this.#enter('starting', { starts: this.state.starts + 1 })
    const port = Number(new URL(url).port)
    if (!(await this.#untilFree(port))) {
      if (signal.aborted) return { kind: 'ended' }
      // The port of an engine that had served may become free a little later.
      return { kind: 'not-started', why: portInUse(port), isFinal: this.state.starts === 1 }
    }
    await rotateLog(this.state.log)
    const from = (await stat(this.state.log).catch(() => null))?.size ?? 0
    // Short, because a socket's path is limited to about a hundred characters, and deterministic, so that the next process finds what a
    // killed one left.
    const temporary = join(tmpdir(), `lh-${sha256Hex(join(files.directory, this.plan.name)).slice(0, 8)}`)
    await rm(temporary, { recursive: true, force: true })
    await makeDirectory(temporary)
    const engine = await startEngine({ start, directory: files.directory, temporary, log: this.state.log })
    try {
      await this.#enter('starting', { process: engine.identity })
      return await this.#watch(engine, from)
    } finally {
      await engine.stop()
      this.state = { ...this.state, process: null }
      await rm(temporary, { recursive: true, force: true })
    }
  }

  async #watch(engine: EngineProcess, from: number): Promise<Life> {
    const { signal } = this.#ending
    const ended = engine.ended.then((end) => ({ end }))
    const deadline = Date.now() + this.#startTimeoutMs
    let hasServed = false
    for (let answeredMs = Date.now(); ; ) {
      const found = await Promise.race([ended, isWell(this.plan.url, signal)])
      if (signal.aborted) return { kind: 'ended' }
      if (typeof found === 'object') {
        const why = await this.#explain(found.end, from)
        return hasServed
          ? { kind: 'died', why: why.text }
          : { kind: 'not-started', why: why.text, isFinal: why.isKnown }
      }
      if (found) {
        answeredMs = Date.now()
        if (!hasServed) await this.#enter('serving', { problem: null })
        hasServed = true
      } else if (!hasServed && Date.now() > deadline) {
        const seconds = Math.round(this.#startTimeoutMs / 1000)
        const why = `It did not answer within ${seconds} s: raise policyServer.launch.startTimeoutS. Its last words:\n${await tailOf(this.state.log)}`
        return { kind: 'not-started', why, isFinal: true }
      } else if (hasServed && Date.now() - answeredMs > SILENT_MS) {
        return { kind: 'died', why: `It was alive but did not answer for ${SILENT_MS / 60_000} minutes` }
      }
      await Promise.race([ended, pause(hasServed ? ASK_EVERY_MS : POLL_MS, signal)])
    }
  }

  async #untilFree(port: number): Promise<boolean> {
    const { signal } = this.#ending
    const { hostname: host } = new URL(this.plan.url)
    for (const deadline = Date.now() + PORT_WAIT_MS; !signal.aborted; await pause(POLL_MS, signal)) {
      if (await isFree(port, host)) return true
      if (Date.now() > deadline) return false
    }
    return false
  }

  async #explain(end: EngineEnd, from: number): Promise<{ text: string; isKnown: boolean }> {
    const program = programOf(this.plan.start.command)
    if (end.code === NOT_FOUND || end.code === NOT_EXECUTABLE) {
      const what = end.code === NOT_FOUND ? 'is not installed' : 'may not be executed'
      const text = `The program ${program} ${what} on ${hostname()}: install it in the PATH of the trainer worker, or name it in policyServer.launch.program`
      return { text, isKnown: true }
    }
    const printed = (await readFile(this.state.log).catch(() => Buffer.alloc(0))).subarray(from).toString('utf8')
    const signal = signalOf(end)
    const known = explainStart({ log: printed, signal })
    const how = signal === null ? `status ${end.code}` : signal
    if (known !== null) return { text: `${known} (it ended with ${how})`, isKnown: true }
    return { text: `It ended with ${how}. Its last words:\n${await tailOf(this.state.log)}`, isKnown: false }
  }

  async #enter(phase: EngineState['phase'], facts: Partial<EngineState>): Promise<void> {
    const sinceMs = phase === this.state.phase ? this.state.sinceMs : Date.now()
    this.state = { ...this.state, ...facts, phase, sinceMs }
    const { name, url, starts, problem } = this.state
    const why = problem === null || phase === 'serving' ? '' : `: ${problem}`
    this.#context.log(`${name} (${url}, start ${starts}) ${phase}${why}`)
    await this.#context.tell()
  }
}

/** Exit code of a shell for a program that is not found. */
const NOT_FOUND = 127
const NOT_EXECUTABLE = 126
const BY_SIGNAL = 128

/** Returns the signal that ended the engine, which the shell around it reports as an exit status. */
function signalOf({ code, signal }: EngineEnd): string | null {
  if (signal !== null || code === null || code <= BY_SIGNAL) return signal
  return Object.entries(constants.signals).find(([, number]) => number === code - BY_SIGNAL)?.[0] ?? null
}

/** Returns the engine's program: a shell that reads the key may wrap it. */
function programOf([program = '', ...rest]: readonly string[]): string {
  return program === 'sh' ? (rest[3] ?? program) : program
}

function portInUse(port: number): string {
  return `Another process on ${hostname()} listens on port ${port}: end that process (\`ss -ltnp 'sport = :${port}'\` names it), or choose another port in policyServer.launch.port`
}

/** Sends one health check, with a limit of seconds. Never throws. */
async function isWell(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.any([signal, AbortSignal.timeout(HEALTH_MS)]) })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}
