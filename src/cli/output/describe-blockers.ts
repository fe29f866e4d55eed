import type { Blocker, RunBlockers } from '../../client/index.ts'
import { setTimeout as sleep } from 'node:timers/promises'

/** A short table: dependency, waiting activity, since when, last error, remedy. */
export function describeBlockers(look: RunBlockers, { all }: { all: boolean }): string {
  const { blockers, waits, workflowId, workflows, notLookedAt } = look
  const nowMs = Date.parse(look.at)
  const lines = [
    blockers.length === 0 ? `${workflowId}: nothing is blocked` : `${workflowId}: ${count(blockers.length, 'blocker')}`,
    ...blockers.flatMap((blocker) => describeBlocker(blocker, nowMs)),
  ]
  if (all && waits.length > 0) {
    lines.push('', 'within the expected time:', ...waits.flatMap((wait) => describeBlocker(wait, nowMs)))
  } else if (waits.length > 0) {
    const oldest = waits[0]
    const what = oldest === undefined ? '' : `, the longest ${oldest.doing} since ${oldest.since}`
    lines.push('', `${count(waits.length, 'wait')} within the expected time${what} (--all shows them)`)
  }
  const now = look.self?.waits.find(({ toDo }) => toDo === null)
  if (now !== undefined) lines.push('', `now: ${now.doing}, since ${now.since}`)
  if (notLookedAt > 0) lines.push('', `looked at ${workflows} open workflows, ${notLookedAt} more were not looked at`)
  return lines.join('\n')
}

function describeBlocker(blocker: Blocker, nowMs: number): string[] {
  const { on, doing, since, error, toDo } = blocker
  const rows: [string, string][] = [
    ['waits on', `${on.kind.replace('-', ' ')} ${on.name}`],
    ['what', doing],
    ['for', describeWhom(blocker)],
    ['since', `${since} (${duration(nowMs - Date.parse(since))})`],
    ...(error === null
      ? []
      : [['error', `${error.code === null ? '' : `${error.code}: `}${error.message}`] satisfies [string, string]]),
    ['to do', toDo],
  ]
  return ['', ...rows.map(([name, value]) => `  ${name.padEnd(9)}${value}`)]
}

/** The coordinates within the run, else the workflow's id. */
function describeWhom({ for: whom, count: many }: Blocker): string {
  const { stage, iteration, task, episode, activity, attempt, workflowId } = whom
  const coordinates = [
    ...(stage === null ? [] : [stage]),
    ...(iteration === null ? [] : [`iteration ${iteration}`]),
    ...(task === null ? [] : [`task ${task}`]),
    ...(episode === null ? [] : [`episode ${episode}`]),
    ...(activity === null ? [] : [attempt > 1 ? `${activity} (attempt ${attempt})` : activity]),
  ]
  const first = coordinates.length === 0 ? workflowId : coordinates.join(' · ')
  return many === 1 ? first : `${count(many, 'activity', 'activities')}, the first: ${first}`
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`
}

function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

interface AnnounceInput {
  look: () => Promise<RunBlockers>
  say: (line: string) => void
  /** Called after each query with the blockers of the run, a sentence each. */
  now?: (blockers: readonly string[]) => void
  signal: AbortSignal
  /** Short enough to show a stall within a minute. @default 15_000 */
  everyMs?: number
}

/** While a run is followed: prints a line when something begins to block it, and one when nothing blocks it any more. */
export async function announceBlockers({ look, say, now, signal, everyMs = 15_000 }: AnnounceInput): Promise<void> {
  let known = new Set<string>()
  while (!(await isOver(everyMs, signal))) {
    // `watch` itself reports an unreachable server.
    const answer = await look().catch(() => null)
    if (answer === null || signal.aborted) continue
    for (const blocker of answer.blockers) if (!known.has(keyOf(blocker))) say(`waits on ${sentence(blocker)}`)
    if (known.size > 0 && answer.blockers.length === 0) say('goes on')
    now?.(answer.blockers.map(sentence))
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
