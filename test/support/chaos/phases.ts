/** The moments at which a fault may strike, each a place where a worker or the policy server stops and asks. */
import { request } from 'node:http'

export const EPISODE_PHASES = [
  /** A further part of a rollout has begun: the part before it still has groups open. */
  'parting',
  /** The container is being opened. */
  'placing',
  /** The policy server has the request and has not answered. */
  'sampling',
  /** Sampled, no action record yet. */
  'sampled',
  /** The action record is written, nothing has run. */
  'recorded',
  /** The command runs. */
  'executing',
  /** It has run, no observation record yet. */
  'executed',
  /** The observation record is written. */
  'observed',
  'capturing',
  'grading',
  /** Graded, no verdict record yet. */
  'graded',
  'closing',
] as const

export const TRAINING_PHASES = [
  /** The batch is being written. */
  'batching',
  /** The training job's process runs. */
  'training',
  /** The new policy is being loaded by the server. */
  'publishing',
] as const

export const PHASES = [...EPISODE_PHASES, ...TRAINING_PHASES] as const
export type Phase = (typeof PHASES)[number]

/** While the sandbox of the episode's agent is there. */
export const WITH_AGENT: readonly Phase[] = EPISODE_PHASES.filter(
  (phase) => !['parting', 'placing', 'grading', 'graded'].includes(phase),
)

/** Where a run is ended: the moments that its records can be cut at, one each. */
export const RESTART_PHASES = [
  'parting',
  'placing',
  'sampling',
  'executing',
  'executed',
  'capturing',
  'grading',
  ...TRAINING_PHASES,
] as const satisfies readonly Phase[]

/** A process has reached a phase. */
export interface Visit {
  phase: Phase
  /** `sandbox`, `sandbox-b`, `artifacts`, … or `policy` and `policy-b`. */
  process: string
  /** Episode id; null where the phase belongs to no episode. */
  episode: string | null
  /** Container that the phase is about, if any. */
  container: string | null
  /** Artifact that is being written, if any. */
  key: string | null
}

export type PolicyFault =
  | 'rate-limit'
  | 'internal-error'
  | 'hang'
  | 'half-body'
  | 'wrong-count'
  | 'other-weights'
  /** Right, but late. */
  | 'slow'
  /** The account is empty: no repetition helps. */
  | 'no-credit'
  /** All is well again. */
  | 'none'

/** What the visitor is told when it may go on. */
export interface Verdict {
  /** From now on its clock shows this much more, ms. */
  clockShiftMs?: number
  /** From now on each operation of the store takes this much longer, ms. */
  storeDelayMs?: number
  /** For the policy server: how its next answers go wrong. */
  policy?: {
    kind: PolicyFault
    times: number
    ms: number
  }
}

/** Tells the harness and waits for its word; a harness that is gone lets everything pass. */
export function visit(controlUrl: string, made: Visit): Promise<Verdict> {
  return ask(controlUrl, 'POST', JSON.stringify(made))
}

/** What a process is told that makes no visit for a while. */
export function askForWord(controlUrl: string, process: string): Promise<Verdict> {
  return ask(`${controlUrl}?process=${encodeURIComponent(process)}`, 'GET')
}

function ask(url: string, method: 'GET' | 'POST', body?: string): Promise<Verdict> {
  return new Promise((resolve) => {
    const asked = request(url, { method, agent: false }, (answer) => {
      let text = ''
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()))
      answer.on('end', () => resolve(text === '' ? {} : (JSON.parse(text) as Verdict)))
      answer.on('error', () => resolve({}))
    })
    asked.on('error', () => resolve({}))
    asked.end(body)
  })
}
