/** Requests and answers of a real sandbox runner, recorded by `test/integration/runner-wire.test.ts`. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface WireExchange {
  what: string
  request: string
  words: string[]
  openFile: string
  state: string
  body: string
}

export const TRANSCRIPT = fileURLToPath(new URL('./wire-transcript.json', import.meta.url))

export function readTranscript(): { startCommit: string; exchanges: WireExchange[] } {
  return JSON.parse(readFileSync(TRANSCRIPT, 'utf8')) as { startCommit: string; exchanges: WireExchange[] }
}

/** An exchange without the parts that vary between containers: the first commit, times, and sizes that depend on them. */
export function steadyOf({ what, request, words, openFile, body }: WireExchange, startCommit: string): object {
  const [kind = '', ...fields] = words
  const volatile: Record<string, number[]> = { ready: [3], done: [3, 7], tree: [0] }
  const shown = fields.map((field, index) => (volatile[kind]?.includes(index) === true ? 'varies' : field))
  const named = (text: string): string => text.replaceAll(startCommit, 'START')
  return {
    what,
    request: named(request),
    words: [kind, ...shown.map(named)],
    openFile,
    body: kind === 'tree' ? '' : named(body),
  }
}
