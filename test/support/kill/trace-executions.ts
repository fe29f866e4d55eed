/**
 * Counts how often each command of each episode ran, independently of the pipeline. Every reply gets a line that notes the turn in a
 * file beside the repository; the reply that submits the work, or the last permitted one, also copies the file into the repository.
 * The patch of an episode therefore shows what ran, and in which order. Token ids stay as sampled.
 */
import type { EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { parseReply } from '../../../src/scaffold/observation.ts'
import type { Exchange } from '../recording-proxy.ts'
import { promptLengths } from './prompt-lengths.ts'
import type { RecordedTurn } from '../run-records.ts'

/** Outside of the repository, where the agent would see the file. */
const NOTES = '/var/tmp/executions'
const HANDED_IN = 'executions.txt'

export interface ExecutionTrace {
  /** Adds the line to a reply; for `startRecordingProxy`. */
  mark(exchange: Exchange, body: Record<string, unknown>): Record<string, unknown>
}

/** @param maxTurns of every stage: the last turn submits the work, because an episode without a submission leaves no patch */
export function traceExecutions({ maxTurns }: { maxTurns: number }): ExecutionTrace {
  // A turn is identified by the length of its prompt, which only grows: a repeated sample has the same length.
  const turnsOf = new Map<string, Set<number>>()
  return {
    mark({ session, promptTokens }, body) {
      const seen = turnsOf.get(session) ?? new Set<number>()
      turnsOf.set(session, seen.add(promptTokens))
      const turn = [...seen].filter((length) => length < promptTokens).length
      const choices = (body['choices'] as { text: string }[]).map((choice) => ({
        ...choice,
        text: markReply(choice.text, { name: promptTokens, isLast: turn === maxTurns - 1 }),
      }))
      return { ...body, choices }
    },
  }
}

/** Exported for its test. */
export function markReply(text: string, { name, isLast }: { name: number; isLast: boolean }): string {
  const { command } = parseReply(text)
  if (command === null && !isLast) return text
  const own = isLast || command === null ? 'submit' : command
  const note = `echo ${name} >>${NOTES}`
  const handIn = /^\s*submit\b/m.test(own) ? [`cp ${NOTES} /testbed/${HANDED_IN}`] : []
  // Longer than any fence in the command.
  const fence = '`'.repeat(20)
  return [`${fence}command`, note, ...handIn, own, fence].join('\n')
}

export interface ExecutionCount {
  /** Commands whose executions the patch shows. */
  commands: number
  faults: string[]
}

/** Compares the executions with the records: each command once, in order. */
export function countExecutions(input: {
  record: EpisodeRecord
  turns: readonly RecordedTurn[]
  patch: string | null
}): ExecutionCount {
  const { record, turns, patch } = input
  const lengths = promptLengths(turns)
  const expected = turns.flatMap(({ action }, turn) => (action.command === null ? [] : [String(lengths[turn])]))
  const found = patch === null ? null : notesOf(patch)
  if (found === null) {
    return {
      commands: 0,
      faults: [`${record.episode} ended as ${record.disposition}: its executions cannot be counted`],
    }
  }
  if (found.join() === expected.join()) return { commands: expected.length, faults: [] }
  const twice = found.filter((name, index) => found.indexOf(name) !== index)
  const named = twice.map((name) => `turn ${lengths.indexOf(Number(name))} was executed again`)
  const detail = `ran ${found.join(' ')}, recorded ${expected.join(' ')}`
  return {
    commands: expected.length,
    faults: [`${record.episode} ${named.join(', ') || 'ran other commands than are recorded'}: ${detail}`],
  }
}

/** The lines that the patch adds to the file; null if it has none. */
function notesOf(patch: string): string[] | null {
  const file = patch.split(/^(?=diff --git )/m).find((part) => part.startsWith(`diff --git a/${HANDED_IN} `))
  if (file === undefined) return null
  return [...file.matchAll(/^\+(\d+)$/gm)].map(([, name = '']) => name)
}
