import type { Command } from 'commander'
import { type Clock, systemClock } from '../../platform/clock.ts'
import { COMPLETE } from '../arguments/completion-scripts.ts'
import { hasDisplay, innermostWait } from './at-work.ts'
import type { Console } from './console.ts'
import { elapsed } from './live-lines.ts'

/** Commands that serve until they are stopped and are expected to be silent; the last one answers a shell at the Tab key. */
export const SERVES: readonly string[] = ['worker', 'codec-server', 'view', COMPLETE]

/** Longest time without a line. */
const SILENCE_MS = 30_000
/** Gives a display that is due at the same time the first turn, after which no line is needed. */
const BEHIND_DISPLAY_MS = 2_000
const TICK_MS = 1_000

export interface SignOfLife {
  /** The console for commands: their output resets the timer. */
  console: Console
  /** Watches each command from its start to its end. */
  watch(program: Command): void
  /** Stops watching if the end of the command did not. */
  stop(): void
}

/**
 * For every command, also one without progress of its own: prints at least every 30 seconds how long it has been running and what it waits
 * for.
 */
export function createSignOfLife({
  console: given,
  clock = systemClock,
}: {
  console: Console
  clock?: Clock
}): SignOfLife {
  let saidMs = 0
  let stopClock = (): void => undefined
  const said = (): void => {
    saidMs = clock.now()
  }
  const { terminal } = given
  const console: Console = {
    out: (text) => (said(), given.out(text)),
    err: (text) => (said(), given.err(text)),
    record: (value) => (said(), given.record(value)),
    command: (line) => (said(), given.command(line)),
    columns: given.columns ?? null,
    terminal: terminal === null ? null : { ...terminal, write: (text) => (said(), terminal.write(text)) },
  }

  const start = (command: Command): void => {
    const name = nameOf(command)
    if (SERVES.includes(name)) return
    const startedMs = clock.now()
    said()
    stopClock = clock.repeat(TICK_MS, () => {
      const limitMs = hasDisplay() ? SILENCE_MS + BEHIND_DISPLAY_MS : SILENCE_MS
      if (clock.now() - saidMs >= limitMs) console.err(line(name, startedMs))
    })
  }
  const line = (name: string, startedMs: number): string => {
    const doing = innermostWait() ?? 'at work'
    return `${elapsed(clock.now() - startedMs)}  ${name}: ${doing}`
  }
  const stop = (): void => stopClock()

  return {
    console,
    watch: (program) => void program.hook('preAction', (_, command) => start(command)).hook('postAction', stop),
    stop,
  }
}

/** `tasks gate` */
function nameOf(command: Command): string {
  const { parent } = command
  return parent === null || parent.parent === null ? command.name() : `${nameOf(parent)} ${command.name()}`
}
