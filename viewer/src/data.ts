/** Loads pages by name, from the server or from the files of a static report. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { LiveMessage, Page } from '../../src/viewer/pages.types.ts'
import { dataAddress } from '../../src/viewer/shared/address.ts'
import { dataFile } from '../../src/viewer/shared/data-file.ts'
import { isStatic } from './is-static.ts'

/** Most cached pages. Few, since a run's page may have megabytes. */
const KEPT = 16
const kept = new Map<string, Promise<Page>>()

/** Pages that the scripts of a static report have delivered through `longhaulPage`. */
const arrived = new Map<string, Page>()
;(window as unknown as { longhaulPage: (name: string, page: Page) => void }).longhaulPage = (name, page) => {
  arrived.set(name, page)
}

export function readPage(name: string): Promise<Page> {
  const known = kept.get(name)
  if (known !== undefined) return known
  const loading = isStatic ? loadScript(name) : loadJson(name)
  kept.set(name, loading)
  loading.catch(() => kept.delete(name))
  const [oldest] = kept.keys()
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest)
  return loading
}

/** Bypasses the cache. */
export function readPageAnew(name: string): Promise<Page> {
  kept.delete(name)
  return readPage(name)
}

/** The server answers that there is no such page. */
class AbsentPage extends Error {
  readonly near: string[]

  constructor(message: string, near: string[]) {
    super(message)
    this.near = near
  }
}

async function loadJson(name: string): Promise<Page> {
  const response = await (takeAsked(name) ?? fetch(dataAddress(name)))
  const answer: unknown = await response.json()
  if (response.ok) return answer as Page
  const { error = `the server answered ${response.status}`, near = [] } = answer as { error?: string; near?: string[] }
  throw response.status === 404 ? new AbsentPage(error, near) : new Error(error)
}

/** The response that start.js has requested. It can be read once, so reading a page again sends a new request. */
function takeAsked(name: string): Promise<Response> | undefined {
  const answer = window.longhaulAsked?.get(name)
  window.longhaulAsked?.delete(name)
  return answer
}

function loadScript(name: string): Promise<Page> {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = dataFile(name)
    script.addEventListener('load', () => {
      const page = arrived.get(name)
      arrived.delete(name)
      script.remove()
      if (page === undefined) reject(new Error(`${script.src} holds another page`))
      else resolve(page)
    })
    script.addEventListener('error', () => {
      script.remove()
      reject(new Error(`This report has no page ${name}`))
    })
    document.head.append(script)
  })
}

export type Loaded<P extends Page> =
  | { state: 'loading' }
  /** `near`: runs of a like name, if there is no such page; null if reading it failed. */
  | { state: 'failed'; why: string; near: string[] | null }
  | { state: 'there'; page: P }

/** The page of that name, read again when `version` changes. */
export function usePage<P extends Page>(name: string | null, version = 0): Loaded<P> {
  const [loaded, setLoaded] = useState<{ name: string; result: Loaded<P> } | null>(null)
  // Requested during rendering, not after the first frame.
  const asked = useMemo(() => {
    if (name === null) return null
    return version > 0 ? readPageAnew(name) : readPage(name)
  }, [name, version])
  useLayoutEffect(() => {
    if (name === null || asked === null) return
    let isWanted = true
    asked.then(
      (page) => isWanted && setLoaded({ name, result: { state: 'there', page: page as P } }),
      (error: unknown) =>
        isWanted &&
        setLoaded({
          name,
          result: {
            state: 'failed',
            why: error instanceof Error ? error.message : String(error),
            near: error instanceof AbsentPage ? error.near : null,
          },
        }),
    )
    return () => {
      isWanted = false
    }
  }, [name, asked])
  return loaded === null || loaded.name !== name ? { state: 'loading' } : loaded.result
}

/** Pages of a live run are read again after this long, or after ten times the last request's duration, whichever is longer. */
const REFRESH_MS = 10_000
const REFRESH_SHARE = 10

/** The page, read again while its run is live and once more at its end. */
export function usePlayedPage<P extends Page>(name: string, isPlayed: boolean): Loaded<P> {
  const [version, setVersion] = useState(0)
  const askedAt = useRef(performance.now())
  const tookMs = useRef(0)
  const wasPlayed = useRef(false)
  const last = useRef<{ name: string; loaded: Loaded<P> } | null>(null)
  const loaded = usePage<P>(name, version)
  if (loaded.state === 'there') last.current = { name, loaded }
  useEffect(() => {
    tookMs.current = performance.now() - askedAt.current
  }, [loaded])
  useEffect(() => {
    const isOver = wasPlayed.current && !isPlayed
    wasPlayed.current = isPlayed
    if (loaded.state === 'loading' || (!isPlayed && !isOver)) return
    const again = (): void => {
      askedAt.current = performance.now()
      setVersion((before) => before + 1)
    }
    const timer = setTimeout(again, isOver ? 0 : Math.max(REFRESH_MS, REFRESH_SHARE * tookMs.current))
    return () => clearTimeout(timer)
  }, [loaded, isPlayed])
  // If the server is gone, the last page stays visible.
  return loaded.state === 'failed' && last.current?.name === name ? last.current.loaded : loaded
}

/** Follows a live run or episode; does nothing in a static report. */
export function useLive(name: string | null, from: number, onMessage: (message: LiveMessage) => void): void {
  useEffect(() => {
    if (isStatic || name === null) return
    const source = new EventSource(`live?name=${encodeURIComponent(name)}&from=${from}`)
    source.addEventListener('message', ({ data }: MessageEvent<string>) => {
      const message = JSON.parse(data) as LiveMessage
      if (message.kind === 'ended') source.close()
      onMessage(message)
    })
    return () => source.close()
    // `from` matters only when the connection opens.
  }, [name])
}
