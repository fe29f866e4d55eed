/** The address of a page: its fragment, so that links work in files too. */
import { useEffect, useState } from 'preact/hooks'

export interface Route {
  /** `run`, `episode`, …; empty for the list of runs. */
  kind: string
  /** What the page is of: a run, an episode's id, two evaluations. */
  of: string
  query: string
}

export function linkTo(kind: string, of: string, query = ''): string {
  const path = of.split('/').map(encodeURIComponent).join('/')
  return `#/${kind}${path === '' ? '' : `/${path}`}${query === '' ? '' : `?${query}`}`
}

export function readRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [kind = '', ...rest] = path.split('/').map(decode)
  return { kind, of: rest.join('/'), query }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const follow = (): void => setHash(location.hash)
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return readRoute(hash)
}

/** Says in the address what is shown, without a step back for each key. */
export function replaceRoute(link: string): void {
  if (location.hash === link) return
  history.replaceState(null, '', link)
  dispatchEvent(new HashChangeEvent('hashchange'))
}
