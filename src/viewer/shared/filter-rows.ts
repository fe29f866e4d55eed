/** The filter of the run page, which is also part of its address. */
import type { EpisodeRow } from '../pages.types.ts'

export interface RowFilter {
  /** Words that the row's text must contain, in any order and case. */
  words: string
  stage: string
  state: string
  verdict: string
  reason: string
  repository: string
  sign: string
  /** `flip`: some attempts of the row's group resolved the task and others did not. */
  only: '' | 'flip' | 'hack' | 'void' | 'failed'
}

export const NO_FILTER: RowFilter = {
  words: '',
  stage: '',
  state: '',
  verdict: '',
  reason: '',
  repository: '',
  sign: '',
  only: '',
}

/** `owner__name-123` → `owner/name`; an id of another form only loses its last part. */
export function repositoryOf(taskId: string): string {
  const found = /^(.+?)__(.+)-[^-]+$/.exec(taskId)
  return found === null ? taskId.replace(/-[^-]+$/, '') : `${found[1]}/${found[2]}`
}

/** The row's group: all attempts at one task in one stage and iteration. */
function groupOf({ stage, iteration, taskId }: EpisodeRow): string {
  return `${stage} ${iteration} ${taskId}`
}

export function flippingGroups(rows: readonly EpisodeRow[]): Set<string> {
  const [resolved, not] = [new Set<string>(), new Set<string>()]
  for (const row of rows) {
    if (row.verdict === 'resolved') resolved.add(groupOf(row))
    if (row.verdict === 'unresolved') not.add(groupOf(row))
  }
  return new Set([...resolved].filter((group) => not.has(group)))
}

export function filterRows(rows: readonly EpisodeRow[], filter: RowFilter): EpisodeRow[] {
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean)
  const flipping = filter.only === 'flip' ? flippingGroups(rows) : null
  return rows.filter((row) => {
    if (filter.stage !== '' && row.stage !== filter.stage) return false
    if (filter.state !== '' && row.state !== filter.state) return false
    if (filter.verdict !== '' && (row.verdict ?? 'none') !== filter.verdict) return false
    if (filter.reason !== '' && row.reason !== filter.reason && row.failure !== filter.reason) return false
    if (filter.repository !== '' && repositoryOf(row.taskId) !== filter.repository) return false
    if (filter.sign !== '' && !row.signs.some((sign) => sign === filter.sign)) return false
    if (filter.only === 'hack' && !row.hack) return false
    if (filter.only === 'void' && row.audit !== 'void') return false
    if (filter.only === 'failed' && row.failure === null) return false
    if (flipping !== null && !flipping.has(groupOf(row))) return false
    return words.every((word) => textOf(row).includes(word))
  })
}

/** How much a reader of these rows has seen: rows and endings only come, so an equal number means equal rows. */
export function countSeen(rows: readonly EpisodeRow[]): number {
  return rows.length + rows.filter(({ state }) => state !== 'running').length
}

function textOf({ episode, state, verdict, reason, failure, signs }: EpisodeRow): string {
  return `${episode} ${state} ${verdict ?? ''} ${reason ?? ''} ${failure ?? ''} ${signs.join(' ')}`.toLowerCase()
}

/** Writes only fields that are set, so that links stay short. */
export function writeFilter(filter: RowFilter): string {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(filter)) if (value !== '') query.set(key, String(value))
  return query.toString()
}

const ONLY: readonly string[] = ['', 'flip', 'hack', 'void', 'failed'] satisfies RowFilter['only'][]

export function readFilter(query: string): RowFilter {
  const given = new URLSearchParams(query)
  const filter: RowFilter = { ...NO_FILTER }
  for (const key of Object.keys(NO_FILTER) as (keyof RowFilter)[]) {
    const value = given.get(key)
    if (value === null) continue
    if (key !== 'only') filter[key] = value
    else if (ONLY.includes(value)) filter.only = value as RowFilter['only']
  }
  return filter
}
