/** The moments at which a fault may strike: at each, a worker or the policy server stops and asks the harness. */
import { request } from 'node:http'

export const EPISODE_PHASES = [
  /** A further part of a rollout has begun while the previous part still has open groups. */
  'parting',
  /** The container is being opened. */
  'placing',
  /** The policy server has the request and has not answered. */
  'sampling',
  /** Sampled, no action record yet. */
  'sampled',
  /** The action record is written; no command has run. */
  'recorded',
  /** The command runs. */
  'executing',
  /** The command has run, no observation record yet. */
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

/** Phases in which the sandbox of the episode's agent exists. */
export const WITH_AGENT: readonly Phase[] = EPISODE_PHASES.filter(
  (phase) => !['parting', 'placing', 'grading', 'graded'].includes(phase),
)

/** Phases at which a run is ended: one for each point at which its records can be cut off. */
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
  /** Episode id; null if the phase belongs to no episode. */
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
  /** Correct, but late. */
  | 'slow'
  /** The account is empty, so retries do not help. */
  | 'no-credit'
  /** The server works normally again. */
  | 'none'

/** The harness's answer, with which the visitor continues. */
export interface Verdict {
  /** Shift of its clock from now on, ms. */
  clockShiftMs?: number
  /** Added delay of each store operation from now on, ms. */
  storeDelayMs?: number
  /** For the policy server: the fault of its next answers. */
  policy?: {
    kind: PolicyFault
    times: number
    ms: number
  }
}

/** Reports the visit and waits for the verdict; if the harness is gone, the visitor continues. */
export function visit(controlUrl: string, made: Visit): Promise<Verdict> {
  return ask(controlUrl, 'POST', JSON.stringify(made))
}

/** The verdict for a process that makes no visit for some time. */
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
