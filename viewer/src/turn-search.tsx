/** Searches all texts of an episode. Texts that the page does not hold are read part by part. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Page, ShownText, TurnLine, TurnPage, TurnsPage, TurnView } from '../../src/viewer/pages.types.ts'
import { isOlder, partOf } from '../../src/viewer/shared/turn-parts.ts'
import { readPage, readPageAnew } from './data.ts'
import { Visible } from './text.tsx'

interface TurnSearchProps {
  episode: string
  lines: readonly TurnLine[]
  chosen: number
  onTurn: (at: number) => void
  field: { current: HTMLInputElement | null }
}

interface Found {
  words: string
  /** Indices among the turns. */
  at: number[]
  /** Number of searched turns. */
  of: number
  why: string | null
}

export function TurnSearch({ episode, lines, chosen, onTurn, field }: TurnSearchProps) {
  const [words, setWords] = useState('')
  const [found, setFound] = useState<Found | null>(null)
  const running = useRef(new AbortController())
  useEffect(() => () => running.current.abort(), [])
  const next = (at: readonly number[]): void => {
    const turn = at.find((one) => one > chosen) ?? at[0]
    if (turn !== undefined) onTurn(turn)
  }
  const search = async (): Promise<void> => {
    if (words === '') return setFound(null)
    // The same words again: go to the next match. A running episode may have new turns.
    if (found !== null && found.words === words && found.of === lines.length) return next(found.at)
    running.current.abort()
    const { signal } = (running.current = new AbortController())
    const at: number[] = []
    const say = (of: number, why: string | null = null): void => setFound({ words, at: [...at], of, why })
    say(0)
    try {
      for await (const { views, of } of turnsOf(episode, lines)) {
        for (const { place, view } of views) if (await hasWords({ episode, view, words })) at.push(place)
        if (signal.aborted) return
        say(of)
      }
      next(at)
    } catch (error) {
      if (!signal.aborted) say(0, error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <form
      role="search"
      class="filters"
      onSubmit={(event) => {
        event.preventDefault()
        void search()
      }}
    >
      <label>
        Search the turns{' '}
        <input ref={field} type="search" value={words} onInput={({ currentTarget }) => setWords(currentTarget.value)} />
      </label>
      <button type="submit">Next</button>
      <span role="status">{found === null ? '' : <Says {...found} all={lines.length} />}</span>
    </form>
  )
}

function Says({ words, at, of, all, why }: Found & { all: number }) {
  if (why !== null) return <Visible text={why} />
  return (
    <>
      {at.length.toLocaleString('en')} of {of.toLocaleString('en')} turns have “
      <Visible text={words} />”{of < all ? ' …' : ''}
    </>
  )
}

interface TurnsRead {
  views: { place: number; view: TurnView }[]
  /** Number of turns read so far. */
  of: number
}

async function* turnsOf(episode: string, lines: readonly TurnLine[]): AsyncGenerator<TurnsRead> {
  let of = 0
  const places = lines.map((line, place) => ({ line, place }))
  for (const [part, own] of Map.groupBy(places, ({ line }) => partOf(line.turn))) {
    const name = `turns/${part}/${episode}`
    const viewsIn = (page: Page) => new Map((page as TurnsPage).turns.map((view) => [view.turn, view]))
    let read = viewsIn(await readPage(name))
    // The part was read before one of its turns was played.
    if (own.some(({ line }) => isOlder(read.get(line.turn), line))) read = viewsIn(await readPageAnew(name))
    of += own.length
    yield {
      of,
      views: own.flatMap(({ line, place }) => {
        const view = read.get(line.turn)
        return view === undefined ? [] : [{ place, view }]
      }),
    }
  }
}

/** Whether the reply, the command or the output has the words, in any case. Texts that are cut are read in full. */
async function hasWords({ episode, view, words }: { episode: string; view: TurnView; words: string }) {
  const { turn, reply, command, observation } = view
  const texts = [reply, command, observation?.text ?? null].filter((text) => text !== null)
  if (texts.some(({ text }) => includes(text, words))) return true
  if (!texts.some(isCut)) return false
  const whole = (await readPage(`turn/${turn}/${episode}`)) as TurnPage
  return [whole.reply, whole.command, whole.observation].some((text) => text !== null && includes(text, words))
}

function isCut({ text, chars }: ShownText): boolean {
  return text.length < chars
}

function includes(text: string, words: string): boolean {
  return text.toLowerCase().includes(words.toLowerCase())
}
