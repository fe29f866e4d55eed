/** An episode's page has one short line per turn; the texts come in parts, when a turn of the part is shown. */
import type { TurnLine, TurnView } from '../pages.types.ts'

/** Small enough to read a part fast, large enough that a static report has few files. */
const TURNS_IN_PART = 20
/** Characters of a command in the list of turns. */
const LINE_CHARS = 120

export function partOf(turn: number): number {
  return Math.floor(turn / TURNS_IN_PART)
}

export function turnsOfPart(part: number): number[] {
  return Array.from({ length: TURNS_IN_PART }, (_, at) => TURNS_IN_PART * part + at)
}

export function turnLine({ turn, command, formatError, observation, sampledAtMs, sampleMs }: TurnView): TurnLine {
  const execution = observation?.execution ?? null
  return {
    turn,
    command: command?.text.slice(0, LINE_CHARS) ?? null,
    formatError,
    isAnswered: observation !== null,
    exitCode: execution?.exitCode ?? null,
    ended: execution?.reason ?? null,
    wallMs: execution?.wallMs ?? null,
    sampledAtMs,
    sampleMs,
    observedAtMs: observation?.observedAtMs ?? null,
  }
}

/** Whether a turn has progressed since its texts were read. */
export function isOlder(view: TurnView | undefined, { isAnswered }: TurnLine): boolean {
  return view === undefined || (view.observation === null && isAnswered)
}
