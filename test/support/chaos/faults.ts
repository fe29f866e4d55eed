/** Every fault: what it does, at which phases it can strike, and what the run must look like afterwards. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { listSandboxes } from '../../../src/adapters/docker/list-sandboxes.ts'
import type { Random } from '../../../src/adapters/datasets/synthetic/random.ts'
import { listTrainingJobs } from '../../../src/stack/stop-training-jobs.ts'
import { HEARTBEAT_MS } from './chaos-bundle.ts'
import type { ChaosProcess, ChaosRole, ChaosStack } from './chaos-stack.ts'
import { hogMemory, killContainer } from './hurt-container.ts'
import { EPISODE_PHASES, type Phase, PHASES, TRAINING_PHASES, type Verdict, type Visit } from './phases.ts'
import type { PolicyState } from './policy-state.ts'
import type { Strike } from './visits.ts'

/**
 * `identical`: the records are those of the run without a fault. `replaced`: an episode may be lost; it has no reward, and another
 * takes its place. `cancelled`: what was committed is the beginning of what would have been.
 */
export type Expectation = 'identical' | 'replaced' | 'cancelled'

export interface StrikeInput {
  stack: ChaosStack
  random: Random
  workflowId: string
  visit: Visit
}

export interface Fault {
  name: string
  phases: readonly Phase[]
  expects: Expectation
  /** No other fault in the same run. */
  isAlone?: boolean
  needsSecondHost?: boolean
  /** @default any visit of the phase */
  matches?: (visit: Visit) => boolean
  strike(input: StrikeInput): Promise<Strike>
}

/** Shorter than the attempts of the activities that meet it. */
const DISK_MS = 4_000
const FREEZE_MS = 8_000

const WITH_AGENT: readonly Phase[] = EPISODE_PHASES.filter((phase) => !['placing', 'grading', 'graded'].includes(phase))
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
      for (const { pid } of listTrainingJobs(stack)) process.kill(pid, 'SIGKILL')
      return {}
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
      await server.stop('SIGTERM')
      return { over: sleep(stack.outageMs).then(() => server.start()) }
    },
  },
  {
    name: 'network-drop',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) => ({ over: stack.proxy(workerOf(visit)).drop(stack.outageMs) }),
  },
  {
    name: 'engine-restart',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack }) => ({ over: stack.engines.a.restart() }),
  },
  {
    name: 'engine-freeze',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack }) => ({ over: stack.engines.a.freeze(FREEZE_MS) }),
  },
  {
    name: 'container-kill',
    phases: [...WITH_AGENT, 'grading'],
    expects: 'identical',
    strike: async ({ stack, visit }) => {
      const { engine } = stack.engines.a
      const target = await containerOf(stack, visit)
      if (target !== null) await killContainer({ engine, name: target })
      return {}
    },
  },
  {
    name: 'container-oom',
    phases: WITH_AGENT.filter((phase) => phase !== 'closing'),
    expects: 'identical',
    strike: async ({ stack, visit }) => {
      const { engine } = stack.engines.a
      const target = await containerOf(stack, visit)
      if (target !== null) await hogMemory({ engine, name: target })
      return {}
    },
  },
  ...(['rate-limit', 'internal-error', 'hang', 'half-body', 'wrong-count'] as const).map(
    (kind): Fault => ({
      name: `policy-${kind}`,
      phases: ['sampling'],
      expects: 'identical',
      strike: async () => ({ verdict: { policy: { kind, times: 2, ms: 5_000 } } }),
    }),
  ),
  {
    name: 'policy-other-weights',
    phases: ['sampling', 'sampled', 'observed'],
    expects: 'identical',
    strike: async ({ stack }) => {
      stack.process('policy').signal('SIGKILL')
      const file = join(stack.policyState, 'policies.json')
      const state = JSON.parse(await readFile(file, 'utf8')) as PolicyState
      await writeFile(file, JSON.stringify({ ...state, otherWeightsUntilMs: Date.now() + 3_500 }))
      return { over: sleep(3_500) }
    },
  },
  {
    name: 'disk-full',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => whenBegun(stack.disk.fill(DISK_MS)),
  },
  {
    name: 'disk-read-only',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack }) => whenBegun(stack.disk.readOnly(DISK_MS)),
  },
  {
    name: 'disk-slow',
    phases: EPISODE_PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) => forAWhile(stack, visit, { storeDelayMs: 600 }, { storeDelayMs: 0 }, 6_000),
  },
  {
    name: 'torn-record',
    phases: ['sampled', 'executed', 'graded'],
    expects: 'replaced',
    strike: async ({ stack, visit }) => {
      if (visit.key !== null) await writeFile(join(stack.artifactsDir, visit.key), '{"schema":"longhaul.torn/1","epis')
      return {}
    },
  },
  {
    name: 'late-waker',
    phases: EPISODE_PHASES,
    expects: 'identical',
    isAlone: true,
    strike: async ({ stack, visit }) => {
      stack.process(sandboxOf(visit)).signal('SIGSTOP')
      return { over: replaceThenWake(stack, sandboxOf(visit)) }
    },
  },
  {
    name: 'clock-jump',
    phases: PHASES,
    expects: 'identical',
    strike: async ({ stack, visit }) =>
      forAWhile(stack, visit, { clockShiftMs: 3_600_000 }, { clockShiftMs: 0 }, 4_000),
  },
  {
    name: 'cancel-twice',
    phases: PHASES,
    expects: 'cancelled',
    isAlone: true,
    strike: async ({ stack, workflowId }) => {
      const handle = stack.connection.client.workflow.getHandle(workflowId)
      await handle.cancel()
      return { over: sleep(700).then(() => handle.cancel().catch(() => undefined)) }
    },
  },
  {
    name: 'host-loss',
    phases: EPISODE_PHASES.filter((phase) => !['sampling', 'placing', 'graded', 'closing'].includes(phase)),
    expects: 'identical',
    isAlone: true,
    needsSecondHost: true,
    matches: ({ process }) => process === 'sandbox-b',
    strike: async ({ stack }) => {
      await stack.stopWorker('sandbox-b')
      await stack.engines.b?.vanish()
      stack.engines.b = null
      return {}
    },
  },
]

export function faultNamed(name: string): Fault {
  const found = FAULTS.find((fault) => fault.name === name)
  if (found === undefined) {
    throw new Error(`Expected a fault of ${FAULTS.map((fault) => fault.name).join(', ')}, got ${name}`)
  }
  return found
}

async function kill(stack: ChaosStack, names: ChaosProcess[]): Promise<Strike> {
  for (const name of names) stack.process(name).signal('SIGKILL')
  return { over: sleep(500).then(() => stack.settle()) }
}

/** A visit of the policy server concerns the host that asked it. */
function sandboxOf({ process }: Visit): ChaosRole {
  return process === 'sandbox-b' ? 'sandbox-b' : 'sandbox'
}

function workerOf({ process }: Visit): ChaosRole {
  return process === 'policy' ? 'sandbox' : (process as ChaosRole)
}

async function containerOf({ engines }: ChaosStack, { episode, container, phase }: Visit): Promise<string | null> {
  if (container !== null) return container
  const role = phase === 'grading' ? 'grader' : 'agent'
  const all = await listSandboxes({ engine: engines.a.engine })
  return all.find((one) => one.episode === episode && one.role === role)?.name ?? null
}

/** The disk is hurt before the visitor goes on. */
async function whenBegun(over: Promise<void>): Promise<Strike> {
  await Promise.race([over, sleep(400)])
  return { over }
}

async function forAWhile(stack: ChaosStack, visit: Visit, hurt: Verdict, healed: Verdict, ms: number): Promise<Strike> {
  const worker = workerOf(visit)
  const isHere = worker === visit.process
  if (!isHere) stack.visits.tell(worker, hurt)
  return { ...(isHere ? { verdict: hurt } : {}), over: sleep(ms).then(() => stack.visits.tell(worker, healed)) }
}

/**
 * The story: a worker stands still for longer than a heartbeat may be missed, another one of the same host takes its attempts over
 * and goes on, and then the first wakes up in the middle of what it was doing.
 */
async function replaceThenWake(stack: ChaosStack, sleeper: ChaosRole): Promise<void> {
  await stack.startWorker('sandbox-spare')
  const before = stack.visits.made.length
  for (const deadline = Date.now() + 4 * HEARTBEAT_MS; Date.now() < deadline; await sleep(100)) {
    const taken = stack.visits.made.slice(before).filter(({ process }) => process === 'sandbox-spare')
    if (taken.length >= 4) break
  }
  stack.process(sleeper).signal('SIGCONT')
  await sleep(1_500)
  await stack.process('sandbox-spare').stop('SIGTERM')
}
