/** What a live run waits for. A static report has no server and does not show it. */
import { useEffect, useState } from 'preact/hooks'
import type { BlockerLine, BlockersPage } from '../../src/viewer/pages.types.ts'
import { usePage } from './data.ts'
import { isStatic } from './is-static.ts'
import { Visible } from './text.tsx'

/** Examining a thousand open workflows takes the server seconds. */
const REFRESH_MS = 10_000

export function Blockers({ page }: { page: BlockersPage | null }) {
  if (page === null || (page.why === null && page.open === null)) return null
  return (
    <section aria-label="Waits">
      <h2>What it waits for</h2>
      {page.open === null ? (
        <p class="note">
          Not known: <Visible text={page.why ?? ''} />
        </p>
      ) : (
        <Lines {...page.open} />
      )}
    </section>
  )
}

function Lines({ blockers, notLookedAt }: NonNullable<BlockersPage['open']>) {
  return (
    <>
      {blockers.length === 0 ? <p>It is being played, and waits for nothing.</p> : null}
      <ul>
        {blockers.map((line) => (
          <li key={`${line.on.kind} ${line.on.name} ${line.error?.code ?? ''}`}>
            <Line {...line} />
          </li>
        ))}
      </ul>
      {notLookedAt === 0 ? null : (
        <p class="note">{notLookedAt.toLocaleString('en')} more open workflows were not looked at.</p>
      )}
    </>
  )
}

function Line({ on, doing, since, count, error, toDo, for: { workflowId } }: BlockerLine) {
  return (
    <>
      <strong>
        {on.kind.replaceAll('-', ' ')} <Visible text={on.name} />
      </strong>
      : <Visible text={doing} />, since {since.slice(0, 19).replace('T', ' ')} UTC;{' '}
      {count === 1 ? '' : `${count.toLocaleString('en')} wait for it, the oldest is `}
      <Visible text={workflowId} />
      {error === null ? null : (
        <>
          . <Visible text={`${error.code ?? 'error'}: ${error.message}`} />
        </>
      )}
      . To do: <Visible text={toDo} />
    </>
  )
}

/** Null until the server has answered or proved unreachable. */
export function useBlockers(run: string): BlockersPage | null {
  const [version, setVersion] = useState(0)
  const loaded = usePage<BlockersPage>(isStatic ? null : `blockers/${run}`, version)
  const page = loaded.state === 'there' ? loaded.page : null
  // A run without an answer may get one: the server may start after its viewer.
  const hasEnded = page !== null && page.why === null && page.open === null
  const isAbsent = loaded.state === 'failed' && loaded.near !== null
  useEffect(() => {
    if (isStatic || hasEnded || isAbsent) return
    const timer = setInterval(() => setVersion((before) => before + 1), REFRESH_MS)
    return () => clearInterval(timer)
  }, [run, hasEnded, isAbsent])
  if (loaded.state === 'failed') return { kind: 'blockers', run, why: loaded.why, open: null, isPlayed: false }
  return page
}
