import { setTimeout as sleep } from 'node:timers/promises'
import type { Blocker, RunBlockers } from '../../client/index.ts'

export interface AnnounceInput {
  look: () => Promise<RunBlockers>
  say: (line: string) => void
  signal: AbortSignal
  /** Often enough that a stall is on the screen within the minute. @default 15_000 */
  everyMs?: number
}

/** While a run is followed: one line when something begins to block it, one when it goes on. */
export async function announceBlockers({ look, say, signal, everyMs = 15_000 }: AnnounceInput): Promise<void> {
  let known = new Set<string>()
  while (!(await isOver(everyMs, signal))) {
    // A server that is away is named by the watching itself.
    const answer = await look().catch(() => null)
    if (answer === null || signal.aborted) continue
    for (const blocker of answer.blockers) if (!known.has(keyOf(blocker))) say(`waits on ${sentence(blocker)}`)
    if (known.size > 0 && answer.blockers.length === 0) say('goes on')
    known = new Set(answer.blockers.map(keyOf))
  }
}

async function isOver(ms: number, signal: AbortSignal): Promise<boolean> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
  return signal.aborted
}

function keyOf({ on, error }: Blocker): string {
  return [on.kind, on.name, error?.code ?? ''].join(' ')
}

function sentence({ on, doing, since, error, toDo }: Blocker): string {
  const why = error === null ? '' : `: ${error.code === null ? '' : `${error.code}: `}${error.message}`
  return `${on.kind.replace('-', ' ')} ${on.name} (${doing}) since ${since}${why}; ${toDo}`
}
