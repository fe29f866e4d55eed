import {
  cancelRun,
  findBlockers,
  type RunHandle,
  type RunOutcome,
  type RunEvent,
  type RunProgress,
} from '../../client/index.ts'
import { announceBlockers } from '../output/describe-blockers.ts'
import { type Console, isCi } from '../output/console.ts'
import { uiLink } from '../local-stack.ts'

/** A second Ctrl-C within this time asks the run itself to end. */
const SECOND_CHANCE_MS = 2_000
/** How long a cancelled run may take to close its sandboxes before we stop looking. */
const CANCEL_GRACE_MS = 60_000

export type OnInterrupt = 'detach' | 'cancel'

interface FollowInput<T> {
  handle: RunHandle<T>
  console: Console
  json: boolean
  /** @default cancel in CI, where no user would come back to the run; detach elsewhere */
  onInterrupt?: OnInterrupt | undefined
}

export type Followed<T> = { kind: 'ended'; outcome: RunOutcome<T>; interrupted: boolean } | { kind: 'detached' }

/** Shows a run until it ends or the user leaves. Leaving never harms it: the run is durable. */
export async function followRun<T>(input: FollowInput<T>): Promise<Followed<T>> {
  const { handle, console, json } = input
  const onInterrupt = input.onInterrupt ?? (isCi() ? 'cancel' : 'detach')
  const printer = createProgressPrinter({ console })
  const leave = new AbortController()
  let interrupts = 0
  const cancelling: Promise<void>[] = []
  const cancel = (): void => {
    if (cancelling.length > 0) return
    console.err('cancelling the run; it closes its sandboxes first')
    cancelling.push(cancelRun(handle).catch((error: unknown) => console.err(String(error))))
    setTimeout(() => leave.abort(), CANCEL_GRACE_MS).unref()
  }
  const interrupted = (): void => {
    interrupts += 1
    printer.finish()
    if (onInterrupt === 'cancel' || interrupts > 1) {
      cancel()
      return
    }
    console.err(howToReturn(handle.workflowId))
    setTimeout(() => {
      if (interrupts === 1) leave.abort()
    }, SECOND_CHANCE_MS)
  }
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.on(signal, interrupted)
  // Announced after the handlers are set: a user who reads the announcement may press Ctrl-C at once.
  announce(handle, { console, json })
  const over = new AbortController()
  // Not waited for at the end: a look that is under way may take as long as the server's silence.
  void announceBlockers({
    look: () => findBlockers(handle),
    say: (line) => printer.note(line),
    signal: AbortSignal.any([leave.signal, over.signal]),
  })
  try {
    for await (const event of handle.watch({ signal: leave.signal })) {
      if (json && event.kind === 'progress') console.record({ event: 'progress', ...event })
      else printer.show(event)
      if (event.kind === 'closed') {
        return { kind: 'ended', outcome: event.outcome, interrupted: interrupts > 0 }
      }
    }
    await Promise.all(cancelling)
    return { kind: 'detached' }
  } finally {
    over.abort()
    printer.finish()
    for (const signal of signals) process.off(signal, interrupted)
  }
}

export function announce(handle: RunHandle<unknown>, { console, json }: { console: Console; json: boolean }): void {
  const { workflowId, attached } = handle
  const ui = uiLink(workflowId)
  if (json) console.record({ event: 'launch', workflowId, attached, ui })
  console.err(`${attached ? 'joined' : 'started'} ${workflowId}${ui === null ? '' : `\n        ${ui}`}`)
}

/** A name alone is first looked for among training runs: of any other root only the whole id is sure to lead back to it. */
function howToReturn(workflowId: string): string {
  const run = workflowId.replace(/^train\//, '')
  return [
    `detached; ${workflowId} goes on`,
    `  watch it again   longhaul run status ${run} --follow`,
    `  end it           longhaul run stop ${run} --now   (or Ctrl-C again within ${SECOND_CHANCE_MS / 1000} s)`,
  ].join('\n')
}

/** A quiet pipeline looks dead: in CI something is said at least this often. */
const HEARTBEAT_MS = 60_000
const CLEAR_LINE = '\r\u001b[2K'

interface ProgressPrinter {
  show(event: RunEvent<unknown>): void
  /** A line that stays, with the time. */
  note(text: string): void
  /** Ends a line that is still being redrawn. */
  finish(): void
}

/** On a terminal one line that is redrawn, elsewhere one line for each change of phase or score. */
function createProgressPrinter({ console, now = Date.now }: { console: Console; now?: () => number }): ProgressPrinter {
  const started = now()
  const stamp = (): string => elapsed((now() - started) / 1000)
  let shown = ''
  let lastAt = started
  let isOpen = false
  let scores = 0

  const permanent = (line: string): void => {
    if (isOpen) process.stderr.write(CLEAR_LINE)
    isOpen = false
    console.err(line)
  }
  const transient = (line: string): void => {
    process.stderr.write(`${CLEAR_LINE}${line.slice(0, Math.max(20, (process.stderr.columns ?? 100) - 1))}`)
    isOpen = true
  }
  const showScores = (progress: RunProgress): void => {
    for (const { name, passAt1, sem, tasks, attempts } of progress.scores.slice(scores)) {
      permanent(`${stamp()}  ${name}: pass@1 ${passAt1.toFixed(3)} ± ${sem.toFixed(3)} (n = ${tasks}, k = ${attempts})`)
    }
    scores = progress.scores.length
  }

  return {
    show(event) {
      if (event.kind === 'progress' && event.progress !== null) showScores(event.progress)
      const phase = phaseOf(event)
      if (phase === null) return
      const line = `${stamp()}  ${phase}${event.kind === 'progress' ? episodesOf(event) : ''}`
      if (console.isInteractive) {
        transient(line)
        return
      }
      if (phase === shown && now() - lastAt < HEARTBEAT_MS) return
      shown = phase
      lastAt = now()
      console.err(line)
    },
    note: (text) => permanent(`${stamp()}  ${text}`),
    finish() {
      if (isOpen) process.stderr.write('\n')
      isOpen = false
    },
  }
}

function phaseOf(event: RunEvent<unknown>): string | null {
  switch (event.kind) {
    case 'progress':
      if (event.progress === null) return 'waiting for a control worker to answer'
      return event.progress.paused ? `${event.progress.phase} (paused)` : event.progress.phase
    case 'unreachable':
      return `the Temporal server does not answer; the run goes on (${event.message})`
    case 'closed':
      return null
  }
}

function episodesOf({ episodes }: Extract<RunEvent<unknown>, { kind: 'progress' }>): string {
  if (episodes === null || episodes.open + episodes.ended === 0) return ''
  return ` · episodes ${episodes.ended} done, ${episodes.open} open`
}

function elapsed(seconds: number): string {
  const whole = Math.floor(seconds)
  return `${String(Math.floor(whole / 60)).padStart(3)}:${String(whole % 60).padStart(2, '0')}`
}
