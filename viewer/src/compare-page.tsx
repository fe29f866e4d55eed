import { useState } from 'preact/hooks'
import type { ComparedAttempts, ComparePage as CompareData } from '../../src/viewer/pages.types.ts'
import { bothEpisodes, linkTo } from '../../src/viewer/shared/address.ts'
import { usePage } from './data.ts'
import { Turn, useEpisode, useTurn } from './episode-page.tsx'
import { useKeys } from './keys.ts'
import { Outcome, TableView, Waiting, WaitingPage } from './parts.tsx'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

export function ComparePage({ of }: { of: string }) {
  const loaded = usePage<CompareData>(`compare/${of}`)
  const [chosen, setChosen] = useState(-1)
  const count = loaded.state === 'there' ? loaded.page.tasks.length : 0
  const step = (by: number): void => setChosen((at) => Math.max(0, Math.min(count - 1, at + by)))
  const [runA = '', , runB = ''] = of.split('/')
  useKeys({ j: () => step(1), k: () => step(-1), u: () => (location.hash = linkTo('run', runB)) })
  const up = <RunLinks runs={[runA, runB]} />
  if (loaded.state !== 'there') {
    return <WaitingPage of={loaded} what="the comparison" title="Comparison" up={up} />
  }
  const { before, after, tables, warnings, tasks } = loaded.page
  return (
    <main>
      <p>{up}</p>
      <h1>
        <Visible text={after.name} /> of <Visible text={after.run} /> against <Visible text={before.name} /> of{' '}
        <Visible text={before.run} />
      </h1>
      {warnings.map((warning) => (
        <p key={warning} class="bad">
          Not alike: <Visible text={warning} />
        </p>
      ))}
      <h2>Difference</h2>
      {tables.map((table) => (
        <TableView key={table.title} table={table} />
      ))}
      <h2>Tasks, those that changed first</h2>
      <VirtualRows
        label="Tasks"
        columns={['task', 'change', 'before', 'after', 'read both']}
        count={tasks.length}
        chosen={chosen}
        onChoose={setChosen}
        className="compare"
        row={(index) => {
          const task = tasks[index]
          if (task === undefined) return []
          const { taskId, before, after, difference } = task
          const [left, right] = [before.episodes[0], after.episodes[0]]
          return [
            <Visible text={taskId} />,
            difference === null ? 'one side only' : difference > 0 ? '▲ better' : difference < 0 ? '▼ worse' : 'same',
            <Attempts of={before} />,
            <Attempts of={after} />,
            left === undefined || right === undefined ? (
              ''
            ) : (
              <a href={linkTo('both', `${left.episode}/${right.episode}`)}>side by side</a>
            ),
          ]
        }}
      />
    </main>
  )
}

function RunLinks({ runs }: { runs: readonly string[] }) {
  return (
    <>
      {[...new Set(runs)].map((run) => (
        <span key={run}>
          <a href={linkTo('run', run)}>
            Run <Visible text={run} />
          </a>{' '}
        </span>
      ))}
    </>
  )
}

function Attempts({ of: { resolved, attempts, episodes } }: { of: ComparedAttempts }) {
  return (
    <>
      {resolved} of {attempts}{' '}
      {episodes.map(({ episode, verdict }, at) => (
        <a key={episode} href={linkTo('episode', episode)} aria-label={`attempt ${at}: ${verdict ?? 'no verdict'}`}>
          {verdict === 'resolved' ? '✓' : '✗'}
        </a>
      ))}
    </>
  )
}

/** Two trajectories, turn by turn. @param of both ids */
export function BothPage({ of }: { of: string }) {
  const [left, right] = bothEpisodes(of)
  const [before, after] = [useEpisode(left), useEpisode(right)]
  const [turn, setTurn] = useState(0)
  const last = Math.max(before.page?.turns.length ?? 0, after.page?.turns.length ?? 0) - 1
  const step = (by: number): void => setTurn((at) => Math.max(0, Math.min(last, at + by)))
  const runs = [left, right].map((episode) => episode.split('/')[0] ?? '')
  useKeys({ j: () => step(1), k: () => step(-1), u: () => (location.hash = linkTo('run', runs[1] ?? '')) })
  return (
    <main>
      <p>
        <RunLinks runs={runs} />
      </p>
      <h1>Two attempts, turn by turn</h1>
      <p>
        <button type="button" onClick={() => step(-1)}>
          Previous turn (k)
        </button>{' '}
        <button type="button" onClick={() => step(1)}>
          Next turn (j)
        </button>{' '}
        turn {turn}
        {last < 0 ? '' : `, the last is ${last}`}
      </p>
      <div class="both">
        <Side label="before" episode={left} read={before} turn={turn} />
        <Side label="after" episode={right} read={after} turn={turn} />
      </div>
    </main>
  )
}

interface SideProps {
  label: string
  episode: string
  read: ReturnType<typeof useEpisode>
  turn: number
}

function Side({ label, episode, read: { page, loaded, news }, turn }: SideProps) {
  const shown = useTurn({ episode, turn, lines: page?.turns ?? null, news })
  return (
    <section aria-label={label}>
      {page === null ? (
        <Waiting of={loaded} what="the episode" />
      ) : (
        <>
          <h2>
            <a href={linkTo('episode', episode)}>
              <Visible text={episode} />
            </a>{' '}
            <Outcome row={page.row} />
          </h2>
          <Turn episode={episode} turn={shown} />
        </>
      )}
    </section>
  )
}
