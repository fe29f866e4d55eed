/** The product's workflows with shorter timeouts and histories: a dead worker is detected in seconds, and a rollout of four groups
 *  has parts. Everything else is as shipped. */
import { buildWorkflowBundle } from '../workflow-bundle.ts'

/** Shipped → in chaos runs. The order stays: heartbeats below schedule-to-start, both below the activity's limit. */
const SHORTER: readonly [option: string, from: string, to: string][] = [
  ['heartbeatTimeout', '20s', '6s'],
  ['heartbeatTimeout', '30s', '7s'],
  ['scheduleToStartTimeout', '2m', '15s'],
]

/** Shipped → in chaos runs. Room for a rollout's other events and two groups; other chaos recipes never have a third group. */
const MOST_EVENTS = ['const MOST_EVENTS = 2000;', 'const MOST_EVENTS = 635;'] as const

/** Heartbeat timeout of the host's activities in chaos runs. */
export const HEARTBEAT_MS = 6_000

export async function buildChaosBundle(): Promise<string> {
  let { code } = await buildWorkflowBundle()
  for (const [option, from, to] of SHORTER) {
    const pattern = new RegExp(`(\\b${option}: ['"])${from}(['"])`, 'g')
    if (!pattern.test(code))
      throw new Error(`Expected the workflows to have ${option} ${from}: the presets have changed`)
    code = code.replaceAll(pattern, `$1${to}$2`)
  }
  const [from, to] = MOST_EVENTS
  if (!code.includes(from)) throw new Error(`Expected the workflows to have ${from}`)
  return code.replace(from, to)
}
