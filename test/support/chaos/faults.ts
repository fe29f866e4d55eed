/** Every fault of a stack with a directory: its action, the phases at which it can strike, and the required state of the run
 *  afterwards. */
import { readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import type { AuditEntry } from './audit-log.ts'
import { orderFor } from '../../../src/adapters/policy-server/pool.ts'
import type { Random } from '../../../src/adapters/datasets/synthetic/compose.ts'
import { listTrainingJobs } from '../../../src/stack/down.ts'
import { signalProcess } from '../../../src/platform/processes.ts'
import { HEARTBEAT_MS } from './chaos-bundle.ts'
import {
  type ChaosProcess,
  type ChaosRole,
  type ChaosStack,
  POLICY_SERVERS,
  type PolicyProcess,
  type Setting,
  type StoreKind,
} from './chaos-stack.ts'
import {
  haveDied,
  isNoted,
  isRunning,
  isStopped,
  livingProcesses,
  untilStopped,
  wasAnswered,
  wasTroubled,
} from './effects.ts'
import { hogMemory, killContainer } from './hurt-container.ts'
import { EPISODE_PHASES, type Phase, PHASES, TRAINING_PHASES, type Verdict, type Visit, WITH_AGENT } from './phases.ts'
import { type PolicyState, policyStateFile } from './policy-state.ts'
import { BUCKET_FAULTS } from './bucket-faults.ts'
import { STORAGE_FAULTS } from './lost-records.ts'
import { POD_FAULTS } from './pod-faults.ts'
import { RESTART_FAULTS, statusOnceClosed } from './restart-faults.ts'
import type { Strike } from './visits.ts'

/**
 * `identical`: the records equal those of the run without faults. `replaced`: an episode may be lost; it has no reward and is
 * replaced. `cancelled`: the committed turns are the beginning of the undisturbed ones. `restarted`: the run ended and was started
 * again; episodes that were closed without a reward were played again with a higher index, and everything else equals the undisturbed
 * run.
 */
export type Expectation = 'identical' | 'replaced' | 'cancelled' | 'restarted'

export interface StrikeInput {
  stack: ChaosStack
  random: Random
  run: string
  workflowId: string
  visit: Visit
}

export interface Fault {
  /** A colon separates a family and its member, as in `reset:group`. */
  name: string
  phases: readonly Phase[]
  expects: Expectation
  /** Whether no other fault may strike in the same run. */
  isAlone?: boolean
  /** Freezes a worker and wakes it after another one has continued its episodes. */
  wakesLate?: boolean
  needsSecondHost?: boolean
  /** Its runs sample from two servers, and it strikes the one that the visiting episode uses. */
  needsReplica?: boolean
  /** Strikes a rollout that is played in parts. */
  needsParts?: boolean
  /** Strikes a part itself, so a part must exist by then. */
  strikesPart?: boolean
  /** Strikes only records of one kind of store. @default any */
  store?: StoreKind
  /** Seconds for which activities wait for the store in its runs. @default long enough for every store that returns */
  storePatienceS?: number
  /** Only training runs have its target: at all of its phases, or at these. */
  needsTraining?: readonly Phase[]
  /** The run is started with a limit on its total time, which an operator may set. */
  limitsRun?: boolean
  /** @default any visit of the phase */
  matches?: (visit: Visit) => boolean
  strike(input: StrikeInput): Promise<Strike>
}

/** Shorter than the attempts of the affected activities. */
const DISK_MS = 4_000
/** Longer than the pauses between all attempts of any activity, so that a wait continues inside of an attempt. */
const DISK_FULL_MS = 40_000
const DISK_LONGEST_MS = 100_000
/** The time of a package update, and longer than the pauses between all attempts at a turn. */
const ENGINE_DOWN_MS = 45_000
const FREEZE_MS = 8_000
/** Sessions that moved to the other server play a few turns there. */
const REPLICA_AWAY_MS = 15_000
const AROUND_SAMPLES = ['sampling', 'sampled', 'observed'] as const satisfies readonly Phase[]
const TORN = '{"schema":"longhaul.torn/1","epis'

const ROLES = ['sandbox', 'control', 'artifacts', 'policy'] as const

export const FAULTS: readonly Fault[] = [
  ...ROLES.map(
    (role): Fault => ({
      name: `kill-${role}`,
      phases: PHASES,
      expects: 'identical',
      strike: ({ stack, visit }) => kill(stack, [role === 'sandbox' ? sandboxOf(visit) : role]),
    }),
  ),
  {
    name: 'kill-trainer',
    phases: TRAINING_PHASES,
    expects: 'identical',
    strike: ({ stack }) => kill(stack, ['trainer']),
  },
  {
    name: 'kill-job',
    phases: ['training'],
    expects: 'identical',
    strike: async ({ stack }) => {
      const jobs = listTrainingJobs(stack)
      for (const job of jobs) signalProcess(job, 'SIGKILL')
      return { seen: () => haveDied(jobs) }
    },
  },
  {
    name: 'kill-two',
    phases: PHASES,
    expects: 'identical',
    strike: ({ stack, random }) => kill(stack, random.sample([...ROLES, 'trainer', 'temporal'] as ChaosProcess[], 2)),
  },
  {
    name: 'temporal-restart',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => {
      const server = stack.process('temporal')
      const before = livingProcesses([server])
      await server.stop('SIGTERM')
      return { over: sleep(stack.outageMs).then(() => server.start()), seen: () => haveDied(before) }
    },
  },
  {
    name: 'network-drop',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) => {
      let cut = 0
      const over = stack.proxy(workerOf(visit)).drop(stack.outageMs)
      return { over: over.then((connections) => (cut = connections)), seen: () => cut > 0 }
    },
  },
  {
    name: 'engine-restart',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack }) => {
      const before = await stack.engines.a.daemon()
      return { over: stack.engines.a.restart({ downMs: ENGINE_DOWN_MS }), seen: () => haveDied([before]) }
    },
  },
  {
    name: 'engine-freeze',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack }) => {
      const daemon = await stack.engines.a.daemon()
      const over = stack.engines.a.freeze(FREEZE_MS)
      const froze = await untilStopped(daemon)
      return { over, seen: () => froze }
    },
  },
  {
    name: 'container-kill',
    phases: [...WITH_AGENT, 'grading'],
    expects: 'identical',
    strike: ({ stack, visit }) => hurtContainer(stack, visit, killContainer),
  },
  {
    name: 'container-oom',
    phases: WITH_AGENT.filter((phase) => phase !== 'closing'),
    expects: 'identical',
    strike: ({ stack, visit }) => hurtContainer(stack, visit, hogMemory),
  },
  ...(['rate-limit', 'internal-error', 'hang', 'half-body', 'wrong-count'] as const).map(
    (kind): Fault => ({
      name: `policy-${kind}`,
      phases: ['sampling'],
      expects: 'identical',
      strike: async ({ stack }) => {
        const sinceMs = Date.now()
        const verdict = { policy: { kind, times: 2, ms: 5_000 } }
        return { verdict, over: sleep(1_000), seen: () => wasTroubled(stack, sinceMs, kind) }
      },
    }),
  ),
  {
    name: 'policy-other-weights',
    phases: ['sampling', 'sampled', 'observed'],
    expects: 'identical',
    strike: ({ stack }) => serveOtherWeights(stack, 'policy'),
  },
  {
    name: 'kill-engine',
    phases: [...AROUND_SAMPLES, 'publishing'],
    expects: 'identical',
    needsReplica: true,
    strike: async ({ stack, visit }) => {
      const sinceMs = Date.now()
      const server = serverOf(stack, visit)
      const before = livingProcesses([stack.process(server)])
      await stack.process(server).stop('SIGKILL')
      const over = sleep(REPLICA_AWAY_MS).then(() => stack.process(server).start())
      const { episode: session } = visit
      // Publishing a policy belongs to no episode.
      const hasMoved = () => session === null || wasAnswered(stack, { sinceMs, session, not: server })
      return { over, seen: async () => (await haveDied(before)) && hasMoved() }
    },
  },
  {
    name: 'engine-slow',
    phases: AROUND_SAMPLES,
    expects: 'identical',
    needsReplica: true,
    strike: async ({ stack, visit }) => {
      const sinceMs = Date.now()
      const server = serverOf(stack, visit)
      const told = tellAt(stack, visit, server, { policy: { kind: 'slow', times: 6, ms: 3_000 } })
      return { ...told, over: sleep(8_000), seen: () => wasTroubled(stack, sinceMs, 'slow', server) }
    },
  },
  {
    name: 'engine-wrong-weights',
    phases: AROUND_SAMPLES,
    expects: 'identical',
    needsReplica: true,
    strike: ({ stack, visit }) => serveOtherWeights(stack, serverOf(stack, visit)),
  },
  {
    name: 'disk-full',
    store: 'directory',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => untilFelt(stack, { hurt: stack.disk.fill, leastMs: DISK_FULL_MS }),
  },
  {
    name: 'disk-read-only',
    store: 'directory',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => untilFelt(stack, { hurt: stack.disk.readOnly, leastMs: DISK_MS }),
  },
  {
    name: 'disk-slow',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) =>
      forAWhile(stack, visit, {
        hurt: { storeDelayMs: 600 },
        healed: { storeDelayMs: 0 },
        ms: 6_000,
        effect: 'store-slow',
      }),
  },
  {
    name: 'torn-record',
    phases: ['sampled', 'executed', 'graded'],
    expects: 'replaced',
    strike: async ({ stack, visit }) => {
      if (visit.key === null) return { seen: () => false }
      const file = stack.fileOf(visit.key)
      await writeFile(file, TORN)
      // The torn record exists first, so the writer of the record finds it.
      return { over: sleep(500), seen: async () => (await readFile(file, 'utf8')) === TORN }
    },
  },
  {
    name: 'late-waker',
    // The control worker starts parts.
    phases: EPISODE_PHASES.filter((phase) => phase !== 'parting'),
    expects: 'identical',
    isAlone: true,
    wakesLate: true,
    strike: async ({ stack, visit }) => {
      const sleeper = stack.process(sandboxOf(visit))
      const [identity = null] = livingProcesses([sleeper]) ?? []
      sleeper.signal('SIGSTOP')
      const slept = identity !== null && (await untilStopped(identity))
      let taken = 0
      const over = replaceThenWake(stack, sandboxOf(visit)).then((visits) => (taken = visits))
      return { over, seen: () => slept && taken > 0 && !isStopped(identity) }
    },
  },
  {
    name: 'clock-jump',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) =>
      forAWhile(stack, visit, {
        hurt: { clockShiftMs: 3_600_000 },
        healed: { clockShiftMs: 0 },
        ms: 4_000,
        effect: 'clock-shifted',
      }),
  },
  {
    name: 'cancel-twice',
    phases: PHASES,
    expects: 'cancelled',
    isAlone: true,
    strike: async ({ stack, workflowId }) => {
      const handle = stack.connection.client.workflow.getHandle(workflowId)
      await handle.cancel()
      return {
        over: sleep(700).then(() => handle.cancel().catch(() => undefined)),
        seen: async () => (await statusOnceClosed(stack, workflowId)) === 'CANCELLED',
      }
    },
  },
  {
    name: 'host-loss',
    phases: EPISODE_PHASES.filter((phase) => !['parting', 'sampling', 'placing', 'graded', 'closing'].includes(phase)),
    expects: 'identical',
    isAlone: true,
    needsSecondHost: true,
    matches: ({ process }) => process === 'sandbox-b',
    strike: async ({ stack }) => {
      const before = livingProcesses([stack.process('sandbox-b')])
      await stack.stopWorker('sandbox-b')
      await stack.engines.b?.vanish()
      stack.engines.b = null
      return { seen: () => haveDied(before) }
    },
  },
  ...RESTART_FAULTS,
  ...STORAGE_FAULTS,
]

/** Faults that are also played with pods, because a dying worker leaves a pod behind. All other faults reach no code that differs for
 *  pods. */
const ALSO_IN_PODS: readonly string[] = ['kill-sandbox']

/**
 * The faults that can strike in a setting. With a bucket and with pods only evaluations are played: a bucket's handling of a
 * training's weights has its own tests, a stack's trainer works on the disk, and a training's episodes are like an evaluation's.
 */
export function faultsOn(setting: Setting): readonly Fault[] {
  if (setting === 'directory') return FAULTS
  const all =
    setting === 'pods'
      ? [...POD_FAULTS, ...FAULTS.filter(({ name }) => ALSO_IN_PODS.includes(name))]
      : [...FAULTS, ...BUCKET_FAULTS].filter((fault) => fault.store !== 'directory')
  return all
    .map((fault) => ({ ...fault, phases: EPISODE_PHASES.filter((phase) => canStrike(fault, phase)) }))
    .filter(({ phases }) => phases.length > 0)
}

function canStrike({ phases, needsTraining }: Fault, phase: Phase): boolean {
  return phases.includes(phase) && needsTraining?.includes(phase) !== true
}

export function faultNamed(name: string): Fault {
  const all = [...FAULTS, ...BUCKET_FAULTS, ...POD_FAULTS]
  const found = all.find((fault) => fault.name === name)
  if (found === undefined) {
    throw new Error(`Expected a fault of ${all.map((fault) => fault.name).join(', ')}, got ${name}`)
  }
  return found
}

/** One fault, or a whole family: `reset` is `reset:root`, `reset:stage` and so on. */
export function faultsNamed(name: string): Fault[] {
  const family = FAULTS.filter((fault) => fault.name.startsWith(`${name}:`))
  return family.length > 0 ? family : [faultNamed(name)]
}

async function kill(stack: ChaosStack, names: ChaosProcess[]): Promise<Strike> {
  const before = livingProcesses(names.map((name) => stack.process(name)))
  for (const name of names) stack.process(name).signal('SIGKILL')
  return { over: sleep(500).then(() => stack.settle()), seen: () => haveDied(before) }
}

async function hurtContainer(
  stack: ChaosStack,
  visit: Visit,
  hurt: (target: { engine: Engine; name: string }) => Promise<void>,
): Promise<Strike> {
  const { engine } = stack.engines.a
  const name = await containerOf(stack, visit)
  if (name === null || !(await isRunning(engine, name))) return { seen: () => false }
  await hurt({ engine, name })
  const isGone = !(await isRunning(engine, name))
  return { seen: () => isGone }
}

/** A visit of the policy server concerns the host that sent the request. */
function sandboxOf({ process }: Visit): ChaosRole {
  return process === 'sandbox-b' ? 'sandbox-b' : 'sandbox'
}

function workerOf({ process }: Visit): ChaosRole {
  return isPolicyServer(process) ? 'sandbox' : (process as ChaosRole)
}

function isPolicyServer(process: string): process is PolicyProcess {
  return (POLICY_SERVERS as readonly string[]).includes(process)
}

/** The server that an episode's session uses while both answer. */
function serverOf({ policyUrls }: ChaosStack, { process, episode }: Visit): PolicyProcess {
  if (isPolicyServer(process)) return process
  const servers = POLICY_SERVERS.map((name) => ({ name, url: policyUrls[name] }))
  return orderFor(episode ?? '', servers)[0]?.name ?? 'policy'
}

/** The server answers for some time as if it held another policy. */
async function serveOtherWeights(stack: ChaosStack, server: PolicyProcess): Promise<Strike> {
  const sinceMs = Date.now()
  stack.process(server).signal('SIGKILL')
  const file = policyStateFile(stack.policyState, server)
  const state = JSON.parse(await readFile(file, 'utf8')) as PolicyState
  await writeFile(file, JSON.stringify({ ...state, otherWeightsUntilMs: Date.now() + 3_500 }))
  return { over: sleep(3_500), seen: () => wasTroubled(stack, sinceMs, 'other-weights', server) }
}

async function containerOf({ engines }: ChaosStack, { episode, container, phase }: Visit): Promise<string | null> {
  if (container !== null) return container
  const role = phase === 'grading' ? 'grader' : 'agent'
  const all = await listSandboxes({ engine: engines.a.engine })
  return all.find((one) => one.episode === episode && one.role === role)?.name ?? null
}

/** Disturbs the disk before the visitor continues. Seen if a worker's write failed. */
async function untilFelt(
  stack: ChaosStack,
  { hurt, leastMs }: { hurt: ChaosStack['disk']['fill']; leastMs: number },
): Promise<Strike> {
  const sinceMs = Date.now()
  const seen = (): boolean => isNoted(stack, sinceMs, ({ kind }) => kind === 'store-failed')
  const felt = async (): Promise<void> => {
    await sleep(leastMs)
    // A training job starts, reads and loads before it writes.
    while (!seen() && Date.now() < sinceMs + DISK_LONGEST_MS) await sleep(500)
  }
  const over = hurt(felt())
  await Promise.race([over, sleep(400)])
  return { over, seen }
}

/** A process gets a verdict at its own visits: at this one, or at its next. */
function tellAt(stack: ChaosStack, visit: Visit, process: ChaosProcess, verdict: Verdict): Pick<Strike, 'verdict'> {
  // The harness itself observes a training job and reports that visit; the job's worker asks for its verdict.
  if (process === visit.process && visit.phase !== 'training') return { verdict }
  stack.visits.tell(process, verdict)
  return {}
}

/** Disturbs one worker from its next visit on. */
async function forAWhile(
  stack: ChaosStack,
  visit: Visit,
  { hurt, healed, ms, effect }: { hurt: Verdict; healed: Verdict; ms: number; effect: 'store-slow' | 'clock-shifted' },
): Promise<Strike> {
  const worker = workerOf(visit)
  const sinceMs = Date.now()
  const isEffect = (entry: AuditEntry): boolean =>
    entry.kind === effect && entry.process === worker && !(entry.kind === 'clock-shifted' && entry.ms === 0)
  return {
    ...tellAt(stack, visit, worker, hurt),
    over: sleep(ms).then(() => stack.visits.tell(worker, healed)),
    seen: () => isNoted(stack, sinceMs, isEffect),
  }
}

/**
 * The story: a worker freezes for longer than the heartbeat timeout, another worker of the same host takes over its attempts and
 * continues, and then the first wakes up in the middle of its work.
 * @returns the visits that the other worker made meanwhile
 */
async function replaceThenWake(stack: ChaosStack, sleeper: ChaosRole): Promise<number> {
  await stack.startWorker('sandbox-spare')
  const before = stack.visits.made.length
  let taken = 0
  for (const deadline = Date.now() + 4 * HEARTBEAT_MS; Date.now() < deadline && taken < 4; await sleep(100)) {
    taken = stack.visits.made.slice(before).filter(({ process }) => process === 'sandbox-spare').length
  }
  stack.process(sleeper).signal('SIGCONT')
  await sleep(1_500)
  await stack.process('sandbox-spare').stop('SIGTERM')
  return taken
}
