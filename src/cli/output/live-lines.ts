import { type Clock, systemClock } from '../../platform/clock.ts'
import { cut, showControls } from '../../report/hostile-text.ts'
import { noteDisplay } from './at-work.ts'
import type { Console } from './console.ts'

/** How far work is, at one moment. */
export interface LiveText {
  /** Which part of the work is under way; a log gets a line at once when it changes. */
  stage: string
  /** The whole on one line. */
  line: string
  /** The whole on a few lines. */
  block: string[]
}

export interface LiveLines {
  /** A line that stays. */
  note(text: string): void
  /** There is something new to show. */
  changed(): void
  /** Ends the display; what it showed last stays where it was drawn on a terminal. */
  finish(): void
}

/** A reader of a log never waits longer for a line. */
const SILENCE_MS = 30_000
/** Of a log: counts that change all the time are said no more often. */
const CHANGE_MS = 10_000
const TICK_MS = 1_000
/** Of a terminal: fast enough to look alive, slow enough for a remote one. */
const REDRAW_MS = 250
const MOST_LINES = 12

interface LiveInput {
  console: Console
  /** Null while there is nothing to say. */
  describe: (nowMs: number) => LiveText | null
  clock?: Clock
}

/** On a terminal a block that is redrawn, elsewhere a line for each new stage, for each change now and then, and at least every 30 seconds. */
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
      console.err(safe(text.line))
    }
    return { tick: say, changed: say, note: (text: string) => console.err(safe(text)), finish: () => undefined }
  }

  function terminalDisplay({ write, columns, rows }: NonNullable<Console['terminal']>) {
    let drawn = 0
    let drawnMs = Number.NEGATIVE_INFINITY
    const erased = (): string => (drawn === 0 ? '' : `\r\u001b[${drawn}A\u001b[J`)
    const draw = (): void => {
      const text = describe(clock.now())
      if (text === null) return
      // One column is left, so that no line wraps; one row, so that nothing scrolls.
      const most = Math.max(1, Math.min(MOST_LINES, rows() - 1))
      const lines = text.block.slice(0, most).map((row) => cut(safe(row), Math.max(20, columns() - 1)))
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
        console.err(safe(text))
        draw()
      },
      finish: draw,
    }
  }

  return {
    note: (text) => (isOver ? console.err(safe(text)) : display.note(text)),
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

/** Ids and messages come from data sets and models. */
function safe(text: string): string {
  return showControls(text)
}

/** Elapsed time alone is no change. */
function withoutTime(line: string): string {
  return line.replace(/^ *\d+:\d\d {2}/, '').replaceAll(/\b(?:for|in about) \d+ (?:s|min|h)(?: \d+ min)?/g, '')
}

/**
 * Says how far work of this process is, until it ends.
 * @param input.what of the work, in the present: `reading the data set`
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
      // Short work ends before anything is worth saying.
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

/** Minutes and seconds since a beginning. */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  return `${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, '0')}`
}
