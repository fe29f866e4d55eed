/** Every page by its name. The server and the static report read records only through this module. */
import { createTaskReader } from '../activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { createEpisodeIndex, type EpisodeIndex } from './episode-index.ts'
import type { EpisodePage, EpisodeRow, Page, RunLine } from './pages.types.ts'
import { readComparePage } from './read-comparison.ts'
import { readEpisodePage, readTurnPage, readTurnsPage } from './read-episode.ts'
import { readHistoryPage } from './read-history.ts'
import { readNightsPage, readTrendPage } from './read-nights.ts'
import { listRuns, readReportPage, readRunPage, readRunsPage, readBlockersPage } from './read-run.ts'
import { findBatch, readTokensPage } from './read-tokens.ts'
import type { RunSource } from './run-source.ts'

export interface Pages {
  /**
   * `runs`, `run/<run>`, `blockers/<run>`, `report/<run>`, `episodes/<run>`, `episode/<id>`, `history/<id>`, `turns/<part>/<id>`,
   * `turn/<turn>/<id>`, `tokens/<id>`, `compare/<run>/<evaluation>/<run>/<evaluation>`, `nights`, `trend/<series>`. Null for any other
   * name, or if there is no such run, episode or series.
   */
  read(name: string): Promise<Page | null>
  /** Null if there is no such run: a name becomes part of a path only if it is among the existing runs. */
  index(run: string): Promise<EpisodeIndex | null>
}

/** @param source answers what records do not contain; without it, pages state that they show only records */
export function createPages(store: ArtifactStore, source: RunSource | null = null): Pages {
  const readTask = createTaskReader(store)
  const ended = new Map<string, RunLine>()
  const indices = new Map<string, EpisodeIndex>()

  const index = async (run: string): Promise<EpisodeIndex | null> => {
    const known = indices.get(run)
    if (known !== undefined) return known
    if (!(await listRuns(store)).includes(run)) return null
    const made = createEpisodeIndex(store, run)
    indices.set(run, made)
    return made
  }
  const rowOf = async (episode: string): Promise<EpisodeRow | null> => {
    const found = await index(episode.split('/')[0] ?? '')
    return found === null ? null : found.row(episode)
  }
  const ofRun = async (run: string, read: (index: EpisodeIndex) => Promise<Page>): Promise<Page | null> => {
    const found = await index(run)
    return found === null ? null : read(found)
  }
  const episodePage = async (row: EpisodeRow): Promise<Page> => {
    const found = await index(row.episode.split('/')[0] ?? '')
    const [siblings, batch, page] = await Promise.all([
      found?.siblings(row),
      findBatch(store, row),
      readEpisodePage({ store, readTask }, row),
    ])
    return { ...page, siblings: siblings?.map(siblingOf) ?? [], hasTokens: batch !== null }
  }
  const comparePage = async ([runA = '', nameA = '', runB = '', nameB = '']: string[]): Promise<Page | null> => {
    const [before, after] = await Promise.all([index(runA), index(runB)])
    if (before === null || after === null) return null
    return readComparePage(store, {
      before: { run: runA, name: nameA, rows: await before.rows() },
      after: { run: runB, name: nameB, rows: await after.rows() },
    })
  }

  return {
    index,
    async read(name) {
      const [kind = '', ...rest] = name.split('/')
      const of = rest.join('/')
      switch (kind) {
        case 'runs':
          return rest.length === 0 ? readRunsPage({ store, source }, ended) : null
        case 'run':
          return ofRun(of, () => readRunPage(store, of))
        case 'blockers':
          return ofRun(of, () => readBlockersPage({ store, source }, of))
        case 'report':
          return ofRun(of, () => readReportPage(store, of))
        case 'episodes':
          return ofRun(of, async (found) => ({ kind: 'episodes', run: of, rows: await found.rows() }))
        case 'episode': {
          const row = await rowOf(of)
          return row === null ? null : episodePage(row)
        }
        case 'history': {
          const row = await rowOf(of)
          return row === null ? null : readHistoryPage({ store, source }, row)
        }
        case 'turn': {
          const [turn = '', ...id] = rest
          const row = /^\d{1,6}$/.test(turn) ? await rowOf(id.join('/')) : null
          return row === null ? null : readTurnPage(store, row.episode, Number(turn))
        }
        case 'turns': {
          const [part = '', ...id] = rest
          const row = /^\d{1,5}$/.test(part) ? await rowOf(id.join('/')) : null
          return row === null ? null : readTurnsPage(store, row.episode, Number(part))
        }
        case 'tokens': {
          const row = await rowOf(of)
          return row === null ? null : readTokensPage(store, row)
        }
        case 'compare':
          return rest.length === 4 ? comparePage(rest) : null
        case 'nights':
          return rest.length === 0 ? readNightsPage(store) : null
        case 'trend':
          return readTrendPage(store, of)
        default:
          return null
      }
    },
  }
}

function siblingOf({ episode, index, state, verdict }: EpisodeRow): EpisodePage['siblings'][number] {
  return { episode, index, state, verdict }
}
