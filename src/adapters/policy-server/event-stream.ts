import { setImmediate as nextTurn } from 'node:timers/promises'

export interface StreamEvent {
  /** Of its `event` field; empty if it has none. */
  name: string
  data: string
}

/** Characters of one event. Each token has its own of some 250; a server that sends a whole reply as one stays far below this too. */
const MOST_OF_EVENT = 1024 * 1024

const LINE_END = /\r\n|\n|\r/

/**
 * Reads server-sent events and hands each to `take`, until it returns false. Keeps no event, takes time linear in the bytes, however they
 * are cut into lines and chunks, and lets other work of the process run after each chunk. Throws a plain `Error` for an event over a
 * mebibyte.
 */
export async function readEvents(
  body: AsyncIterable<Uint8Array>,
  take: (event: StreamEvent) => boolean,
): Promise<void> {
  const decoder = new TextDecoder()
  let line = ''
  let endsInReturn = false
  let name = ''
  let data = null as string | null

  for await (const chunk of body) {
    let text = decoder.decode(chunk, { stream: true })
    // The second half of a line's end that the chunks separate.
    if (endsInReturn && text !== '') text = text.replace(/^\n/, '')
    endsInReturn = text === '' ? endsInReturn : text.endsWith('\r')
    const [first = '', ...others] = text.split(LINE_END)
    line += first
    for (const next of others) {
      if (!takeLine()) return
      line = next
    }
    if (line.length + (data?.length ?? 0) > MOST_OF_EVENT) throw new Error(`event over ${MOST_OF_EVENT} characters`)
    await nextTurn()
  }

  function takeLine(): boolean {
    if (line !== '') {
      readField()
      return true
    }
    const event = data === null ? null : { name, data }
    name = ''
    data = null
    return event === null || take(event)
  }

  function readField(): void {
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') name = value
    if (field === 'data') data = data === null ? value : `${data}\n${value}`
  }
}
