import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type {
  EpisodePage as EpisodeData,
  LiveMessage,
  TurnLine,
  TurnPage,
  TurnsPage,
  TurnView,
} from '../../src/viewer/pages.types.ts'
import { linkTo, turnOf } from '../../src/viewer/shared/address.ts'
import { isOlder, partOf, turnLine } from '../../src/viewer/shared/turn-parts.ts'
import { type Loaded, readPage, useLive, usePage } from './data.ts'
import { isStatic } from './is-static.ts'
import { useKeys } from './keys.ts'
import { Diff, Outcome, seconds, Waiting, WaitingPage } from './parts.tsx'
import { replaceRoute } from './route.ts'
import { Block, Visible } from './text.tsx'
import { Timeline } from './timeline.tsx'
import { TurnSearch } from './turn-search.tsx'
import { VirtualRows } from './virtual-rows.tsx'

export function EpisodePage({ episode, query }: { episode: string; query: string }) {
  const { page, loaded, news } = useEpisode(episode)
  const turn = turnOf(query)
  const setTurn = (next: number): void => replaceRoute(linkTo('episode', episode, `turn=${next}`))
  const last = (page?.turns.length ?? 0) - 1
  const chosen = Math.min(Math.max(0, turn), Math.max(0, last))
  const isFailing = ({ formatError, exitCode }: TurnLine): boolean => formatError !== null || (exitCode ?? 0) !== 0
  // Until the page is loaded, the turn of the address: both are requested at once.
  const shown = useTurn({ episode, turn: page === null ? turn : chosen, lines: page?.turns ?? null, news })
  const jump = (by: 1 | -1): void => {
    for (let at = chosen + by; at >= 0 && at <= last; at += by) {
      const found = page?.turns[at]
      if (found !== undefined && isFailing(found)) return setTurn(at)
    }
  }
  const field = useRef<HTMLInputElement>(null)
  useKeys({
    '/': () => field.current?.focus(),
    j: () => setTurn(Math.min(last, chosen + 1)),
    k: () => setTurn(Math.max(0, chosen - 1)),
    n: () => jump(1),
    p: () => jump(-1),
    u: () => (location.hash = linkTo('run', episode.split('/')[0] ?? '')),
  })
  const run = episode.split('/')[0] ?? ''
  if (page === null) {
    const up = <a href={linkTo('run', run)}>Run {run}</a>
    return <WaitingPage of={loaded} what="the episode" title={`Episode ${episode}`} up={up} />
  }
  return (
    <main>
      <p>
        <a href={linkTo('run', run)}>
          Run <Visible text={run} />
        </a>
      </p>
      <h1>
        <Visible text={page.row.taskId} />, <Visible text={page.row.stage} /> {page.row.iteration}, attempt{' '}
        {page.row.index}
      </h1>
      <Summary page={page} />
      <Timeline page={page} onTurn={setTurn} />
      <section>
        <h2>Turns</h2>
        <p class="note">
          Keys: j, k next and previous turn; n, p next and previous failing one; / to search; u back to the run.
        </p>
        <TurnSearch key={episode} episode={episode} lines={page.turns} chosen={chosen} onTurn={setTurn} field={field} />
        <div class="turns">
          <VirtualRows
            label="Turns"
            columns={['turn', 'command', 'exit', 'time']}
            count={page.turns.length}
            chosen={chosen}
            onChoose={setTurn}
            className="turn-list"
            row={(index) => {
              const line = page.turns[index]
              return line === undefined ? [] : turnCells(line, () => setTurn(index))
            }}
          />
          <Turn episode={episode} turn={shown} />
        </div>
      </section>
      <Graded page={page} />
    </main>
  )
}

/** Another part is read ahead when the reader is this many turns away from it. */
const NEAR = 5
const NO_LINES: TurnLine[] = []
const NO_NEWS: TurnView[] = []

/** The stored page, with the turns that were played since it was read. */
export function useEpisode(episode: string) {
  const [version, setVersion] = useState(0)
  const [news, setNews] = useState<{ episode: string; turns: TurnView[] }>({ episode, turns: [] })
  const loaded = usePage<EpisodeData>(`episode/${episode}`, version)
  const isRunning = loaded.state === 'there' && loaded.page.row.state === 'running'
  const stored = loaded.state === 'there' ? loaded.page.turns : NO_LINES
  const follow = useCallback(
    (message: LiveMessage): void => {
      if (message.kind === 'ended') setVersion((before) => before + 1)
      if (message.kind !== 'turn') return
      setNews((before) => {
        const kept = before.episode === episode ? before.turns.filter(({ turn }) => turn !== message.turn.turn) : []
        return { episode, turns: [...kept, message.turn] }
      })
    },
    [episode],
  )
  const answered = stored.findIndex(({ isAnswered }) => !isAnswered)
  useLive(isRunning ? `episode/${episode}` : null, answered === -1 ? stored.length : answered, follow)
  useEffect(() => setNews({ episode, turns: [] }), [version])
  const added = news.episode === episode ? news.turns : NO_NEWS
  const turns = useMemo(() => {
    if (added.length === 0) return stored
    return [...new Map([...stored, ...added.map(turnLine)].map((line) => [line.turn, line])).values()]
  }, [stored, added])
  if (loaded.state !== 'there') return { page: null, loaded, news: NO_NEWS }
  return { page: { ...loaded.page, turns }, loaded, news: added }
}

interface UseTurnInput {
  episode: string
  /** Index among the turns. */
  turn: number
  /** Null until the episode's page is loaded. */
  lines: readonly TurnLine[] | null
  news: readonly TurnView[]
}

/** A turn with its texts; null if the episode has no such turn. */
export function useTurn({ episode, turn: at, lines, news }: UseTurnInput): TurnView | Loaded<TurnsPage> | null {
  const [again, setAgain] = useState({ name: '', times: 0 })
  const line = lines?.[at]
  const turn = line?.turn ?? at
  const part = partOf(turn)
  const name = `turns/${part}/${episode}`
  const times = again.name === name ? again.times : 0
  const loaded = usePage<TurnsPage>(lines === null || line !== undefined ? name : null, times)
  const stored = loaded.state === 'there' ? loaded.page.turns.find((view) => view.turn === turn) : undefined
  const found = news.find((view) => view.turn === turn) ?? stored
  // The part was read before the turn was played.
  const isOld = loaded.state === 'there' && line !== undefined && isOlder(found, line)
  useEffect(() => {
    if (isOld) setAgain({ name, times: times + 1 })
  }, [isOld, name])
  const isThere = loaded.state === 'there'
  useEffect(() => {
    if (!isThere || lines === null) return
    const near = [at - NEAR, at + NEAR].flatMap((other) => lines[other] ?? []).map((other) => partOf(other.turn))
    for (const other of near) if (other !== part) void readPage(`turns/${other}/${episode}`)
  }, [isThere, at])
  if (lines !== null && line === undefined) return null
  return found ?? loaded
}

function turnCells(line: TurnLine, choose: () => void) {
  const { turn, command, formatError, isAnswered, exitCode, ended, sampleMs, wallMs } = line
  return [
    turn,
    <button type="button" class="link" onClick={choose}>
      <Visible text={(command ?? `no command: ${formatError ?? 'nothing'}`).replaceAll('\n', ' ⏎ ')} />
    </button>,
    isAnswered ? (exitCode ?? ended ?? '–') : '…',
    seconds(sampleMs + (wallMs ?? 0)),
  ]
}

export function Turn({ episode, turn: view }: { episode: string; turn: ReturnType<typeof useTurn> }) {
  if (view === null) return <p>No turn yet.</p>
  if ('state' in view) {
    return (
      // The same element as for the turn, so that a screen reader announces what appears in it.
      <article class="turn" aria-label="Turn" aria-live="polite">
        <Waiting of={view} what="the turn" />
      </article>
    )
  }
  const { turn, reply, command, observation, formatError, finishReason, policy, sampledTokens, sampleMs } = view
  const whole = (part: 'reply' | 'command' | 'observation') => async (): Promise<string> => {
    const page = (await readPage(`turn/${turn}/${episode}`)) as TurnPage
    return page[part] ?? ''
  }
  const execution = observation?.execution ?? null
  return (
    <article class="turn" aria-label={`Turn ${turn}`} aria-live="polite">
      <h3>Turn {turn}</h3>
      <p>
        {sampledTokens} tokens in {seconds(sampleMs)} ({finishReason}), policy <Visible text={policy} />
        {execution === null
          ? ''
          : `; ran ${seconds(execution.wallMs)}, ${execution.reason}${execution.exitCode === null ? '' : ` ${execution.exitCode}`}${execution.oomKilled ? ', out of memory' : ''}, ${execution.outputBytes} bytes`}
      </p>
      {formatError === null ? null : <p class="bad">Format error: {formatError}</p>}
      {command === null ? null : (
        <>
          <h4>Command</h4>
          <Block key={`c${turn}`} shown={command} label={`Command of turn ${turn}`} whole={whole('command')} />
        </>
      )}
      <h4>Output</h4>
      {observation === null ? (
        <p role="status">No answer yet.</p>
      ) : (
        <Block
          key={`o${turn}`}
          shown={observation.text}
          label={`Output of turn ${turn}`}
          whole={whole('observation')}
        />
      )}
      {observation === null ? null : (
        <p>
          In <Visible text={observation.cwd} />
          {observation.openFile === null ? null : (
            <>
              , open file <Visible text={observation.openFile} />
            </>
          )}
        </p>
      )}
      <details>
        <summary>Whole reply</summary>
        <Block key={`r${turn}`} shown={reply} label={`Reply of turn ${turn}`} whole={whole('reply')} />
      </details>
    </article>
  )
}

function Summary({ page }: { page: EpisodeData }) {
  const { row, policy, repo, statement, verdict, reward, signs, siblings, hasTokens } = page
  return (
    <section>
      <p>
        <Outcome row={row} /> {row.state}
        {row.reason === null ? '' : `, ${row.reason}`}
        {row.failure === null ? '' : `, ${row.failure}`}
        {row.turns === null ? '' : `, ${row.turns} turns`}
        {repo === null ? null : (
          <>
            , repository <Visible text={repo} />
          </>
        )}
        {policy === null ? null : (
          <>
            , policy <Visible text={policy} />
          </>
        )}
        {row.state === 'running' && !isStatic ? ' (live)' : ''}
      </p>
      {reward === null ? null : (
        <p>
          Reward {reward.reward.toFixed(3)}:{' '}
          {reward.parts.map(({ name, value }) => `${name} ${value.toFixed(3)}`).join(', ')}
        </p>
      )}
      {verdict?.audit === null || verdict === null ? null : (
        <p>
          Audit {verdict.audit.outcome}
          {verdict.audit.reasons.map(({ says }) => `; ${says}`)}
          {verdict.audit.detail === null ? null : (
            <>
              : <Visible text={verdict.audit.detail} />
            </>
          )}
        </p>
      )}
      {signs.length === 0 ? null : (
        <ul>
          {signs.map(({ sign, says, voidsReward }) => (
            <li key={sign}>
              ⚠ {sign}: {says} ({voidsReward ? 'voids the reward' : 'for information only'})
            </li>
          ))}
        </ul>
      )}
      <p>
        Attempts at this task:{' '}
        {siblings.map((sibling) => (
          <span key={sibling.episode}>
            <a
              href={linkTo('episode', sibling.episode)}
              aria-current={sibling.episode === row.episode ? 'page' : undefined}
            >
              {sibling.index}
            </a>{' '}
            <Outcome row={sibling} />{' '}
          </span>
        ))}
        {hasTokens ? <a href={linkTo('tokens', row.episode)}>Tokens as the trainer read them</a> : null}
      </p>
      {statement === null ? null : (
        <details>
          <summary>Statement</summary>
          <Block shown={statement} label="Statement" />
        </details>
      )}
    </section>
  )
}

function Graded({ page: { patch, verdict, tests, log } }: { page: EpisodeData }) {
  return (
    <>
      <section>
        <h2>Patch</h2>
        {patch === null || patch.chars === 0 ? <p>No patch.</p> : <Diff patch={patch.text} label="Patch" />}
        {patch !== null && patch.text.length < patch.chars ? (
          <p>
            Its first {patch.text.length} characters of {patch.chars}.
          </p>
        ) : null}
      </section>
      {verdict === null ? null : (
        <section>
          <h2>Tests</h2>
          <p>
            {verdict.kind}
            {verdict.reason === null ? '' : ` (${verdict.reason})`}, FAIL_TO_PASS {verdict.failToPass.passed} of{' '}
            {verdict.failToPass.total}, PASS_TO_PASS {verdict.passToPass.passed} of {verdict.passToPass.total},{' '}
            {verdict.profile},{' '}
            {verdict.from === 'gate' ? 'as the gate found for an empty patch' : seconds(verdict.gradeMs)}
          </p>
          {tests.length === 0 ? null : (
            <VirtualRows
              label="Tests"
              columns={['test', 'list', 'before', 'after']}
              count={tests.length}
              chosen={-1}
              onChoose={() => undefined}
              className="tests"
              row={(index) => {
                const test = tests[index]
                return test === undefined
                  ? []
                  : [<Visible text={test.name} />, test.list, test.before, <Visible text={test.after ?? '–'} />]
              }}
            />
          )}
          {log === null ? null : (
            <details>
              <summary>Log of the tests</summary>
              <Block shown={log} label="Log of the tests" />
            </details>
          )}
        </section>
      )}
    </>
  )
}
