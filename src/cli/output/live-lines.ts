import { type Clock, systemClock } from '../../platform/clock.ts'
import { cut, showControls } from '../../domain/hostile-text.ts'
import { noteDisplay } from './at-work.ts'
import type { Console } from './console.ts'

/** Progress at one moment. */
export interface LiveText {
  /** The current part of the work; a log gets a line at once when it changes. */
  stage: string
  /** The progress on one line. */
  line: string
  /** The progress on a few lines. */
  block: string[]
}

export interface LiveLines {
  /** Prints a permanent line. */
  note(text: string): void
  /** Signals that there is something new to show. */
  changed(): void
  /** Ends the display; on a terminal, its last state stays visible. */
  finish(): void
}

/** Longest time without a line in a log. */
const SILENCE_MS = 30_000
/** In a log: least time between lines about changing counts. */
const CHANGE_MS = 10_000
const TICK_MS = 1_000
/** On a terminal: fast enough to look alive, slow enough for a remote one. */
const REDRAW_MS = 250
const MOST_LINES = 12

interface LiveInput {
  console: Console
  /** Null if there is nothing to show. */
  describe: (nowMs: number) => LiveText | null
  clock?: Clock
}

/** On a terminal, redraws a block; elsewhere, prints a line for each new stage, for changes now and then, and at least every 30 seconds. */
export function createLiveLines({ console, describe, clock = systemClock }: LiveInput): LiveLines {
  const display = console.terminal === null ? logDisplay() : terminalDisplay(console.terminal)
  const stop = clock.repeat(TICK_MS, () => display.tick())
  const endDisplay = noteDisplay()
  let isOver = false

  function logDisplay() {
    let stage: string | null = null
    let line = ''
    let saidMs = clock.now()
    const say = (): void => {
      const text = describe(clock.now())
      if (text === null) return
      const silentMs = clock.now() - saidMs
      const isNew = text.stage !== stage || (withoutTime(text.line) !== line && silentMs >= CHANGE_MS)
      if (!isNew && silentMs < SILENCE_MS) return
      stage = text.stage
      line = withoutTime(text.line)
      saidMs = clock.now()
      console.err(text.line)
    }
    return { tick: say, changed: say, note: (text: string) => console.err(text), finish: () => undefined }
  }

  function terminalDisplay({ write, columns, rows }: NonNullable<Console['terminal']>) {
    let drawn = 0
    let drawnMs = Number.NEGATIVE_INFINITY
    const erased = (): string => (drawn === 0 ? '' : `\r\u001b[${drawn}A\u001b[J`)
    const draw = (): void => {
      const text = describe(clock.now())
      if (text === null) return
      // Ids and messages can come from data sets and models. One column stays free, so that no line wraps; one row, so that nothing scrolls.
      const most = Math.max(1, Math.min(MOST_LINES, rows() - 1))
      const lines = text.block.slice(0, most).map((row) => cut(showControls(row), Math.max(20, columns() - 1)))
      write(`${erased()}${lines.map((row) => `${row}\n`).join('')}`)
      drawn = lines.length
      drawnMs = clock.now()
    }
    return {
      tick: draw,
      changed: () => {
        if (clock.now() - drawnMs >= REDRAW_MS) draw()
      },
      note: (text: string) => {
        write(erased())
        drawn = 0
        console.err(text)
        draw()
      },
      finish: draw,
    }
  }

  return {
    note: (text) => (isOver ? console.err(text) : display.note(text)),
    changed: () => {
      if (!isOver) display.changed()
    },
    finish() {
      if (isOver) return
      isOver = true
      stop()
      endDisplay()
      display.finish()
    },
  }
}

/** Removes elapsed times, which alone do not count as a change. */
function withoutTime(line: string): string {
  return line.replace(/^ *\d+:\d\d {2}/, '').replaceAll(/\b(?:for|in about) \d+ (?:s|min|h)(?: \d+ min)?/g, '')
}

/**
 * Shows the progress of work in this process until it ends.
 * @param input.what describes the work, in the present: `reading the data set`
 */
export async function whileReporting<T>(
  input: { console: Console; what: () => string; clock?: Clock },
  work: (live: LiveLines) => Promise<T>,
): Promise<T> {
  const { console, what, clock = systemClock } = input
  const startedMs = clock.now()
  const live = createLiveLines({
    console,
    clock,
    describe: (nowMs) => {
      const text = what()
      // Short work shows nothing.
      if (text === '' || nowMs - startedMs < QUIET_MS) return null
      const line = `${elapsed(nowMs - startedMs)}  ${text}`
      return { stage: 'one', line, block: [line] }
    },
  })
  try {
    return await work(live)
  } finally {
    live.finish()
  }
}

const QUIET_MS = 2_000

/** Elapsed minutes and seconds. */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  return `${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, '0')}`
}
