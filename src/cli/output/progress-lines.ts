import type { RunEvent, RunProgress } from '../../client/index.ts'
import type { Console } from './console.ts'

/** A quiet pipeline looks dead: in CI something is said at least this often. */
const HEARTBEAT_MS = 60_000
const CLEAR_LINE = '\r\u001b[2K'

export interface ProgressPrinter {
  show(event: RunEvent<unknown>): void
  /** A line that stays, with the time. */
  note(text: string): void
  /** Ends a line that is still being redrawn. */
  finish(): void
}

/** On a terminal one line that is redrawn, elsewhere one line for each change of phase or score. */
export function createProgressPrinter({
  console,
  now = Date.now,
}: {
  console: Console
  now?: () => number
}): ProgressPrinter {
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
      return `the server does not answer; the run goes on without us (${event.message})`
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
