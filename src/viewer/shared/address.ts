/** The address of a page is a fragment, so that links also work in files. */
import { partOf } from './turn-parts.ts'

export interface Route {
  /** `run`, `episode`, …; empty for the list of runs. */
  kind: string
  /** Subject of the page: a run, an episode's id, two evaluations. */
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

/** The two episodes of a page that shows both: an episode's id has five parts. */
export function bothEpisodes(of: string): [left: string, right: string] {
  const parts = of.split('/')
  return [parts.slice(0, 5).join('/'), parts.slice(5).join('/')]
}

/** The turn that an episode's address opens. */
export function turnOf(query: string): number {
  const turn = Number(new URLSearchParams(query).get('turn') ?? '0')
  return Number.isSafeInteger(turn) && turn >= 0 ? turn : 0
}

/** Data that this address needs for its first rendering, in the order of need. */
export function firstData(hash: string): string[] {
  const { kind, of, query } = readRoute(hash)
  switch (kind) {
    case 'run':
      return [`run/${of}`, `episodes/${of}`]
    case 'episode':
      return [`episode/${of}`, `turns/${partOf(turnOf(query))}/${of}`]
    case 'both':
      return bothEpisodes(of).flatMap((episode) => [`episode/${episode}`, `turns/0/${episode}`])
    case 'tokens':
    case 'compare':
    case 'trend':
      return [`${kind}/${of}`]
    case 'nights':
      return ['nights']
    case '':
      return ['runs']
    default:
      return []
  }
}

/** The server's address of a page's data. */
export function dataAddress(name: string): string {
  return `data?name=${encodeURIComponent(name)}`
}
