import { useMemo } from 'preact/hooks'
import type {
  NightsPage as NightsData,
  RunsPage,
  TrendNight,
  TrendPage as TrendData,
  TrendVerdict,
} from '../../src/viewer/pages.types.ts'
import { TREND_METRICS, type TrendLines, trendLines, type TrendMetric } from '../../src/viewer/shared/trend-lines.ts'
import { Curve } from './curve.tsx'
import { linkTo } from '../../src/viewer/shared/address.ts'
import { usePage } from './data.ts'
import { isStatic } from './is-static.ts'
import { WaitingPage } from './parts.tsx'
import { replaceRoute } from './route.ts'
import { Visible } from './text.tsx'

export function NightsPage() {
  const loaded = usePage<NightsData>('nights')
  if (loaded.state !== 'there') {
    const up = <a href={linkTo('', '')}>All runs</a>
    return <WaitingPage of={loaded} what="the series of nights" title="Nights" up={up} />
  }
  const { series } = loaded.page
  return (
    <main>
      <p>
        <a href={linkTo('', '')}>All runs</a>
      </p>
      <h1>Nights</h1>
      {series.length === 0 ? (
        <p>No evaluation here has joined a series yet: a schedule, or a recipe, makes one.</p>
      ) : null}
      <ul>
        {series.map(({ series, evaluations, last }) => (
          <li key={series}>
            <a href={linkTo('trend', series)}>
              <Visible text={series} />
            </a>
            : {evaluations.toLocaleString('en')} {evaluations === 1 ? 'evaluation' : 'evaluations'}
            {last === null ? ', the last ones unreadable' : <Newest night={last} />}
          </li>
        ))}
      </ul>
    </main>
  )
}

function Newest({ night }: { night: TrendNight }) {
  return (
    <>
      , the last of {day(night)}: {score(night)}, policy <Visible text={night.policy} />
      {night.verdicts.map((verdict) => (
        <span key={verdict.against}>
          , <Word of={verdict} />
        </span>
      ))}
    </>
  )
}

export function TrendPage({ series, query }: { series: string; query: string }) {
  const loaded = usePage<TrendData>(`trend/${series}`)
  const runs = useRunsHere()
  if (loaded.state !== 'there') {
    const up = <a href={linkTo('nights', '')}>All series</a>
    return <WaitingPage of={loaded} what="the nights" title={`Nights of ${series}`} up={up} />
  }
  const { nights, earlier, unreadable } = loaded.page
  return (
    <main>
      <p>
        <a href={linkTo('nights', '')}>All series</a>
      </p>
      <h1>
        Nights of <Visible text={series} />
      </h1>
      <Lines series={series} nights={nights} query={query} />
      <h2>Nights, the newest first</h2>
      {earlier + unreadable === 0 ? null : (
        <p role="status">
          Not shown: {earlier.toLocaleString('en')} earlier evaluations, {unreadable.toLocaleString('en')} whose record
          does not pass its own hash.
        </p>
      )}
      <Nights nights={nights} runs={runs} />
    </main>
  )
}

/** Runs that have a page here; null: all of them. A static report has only its own run, so links to others would be dead. */
function useRunsHere(): ReadonlySet<string> | null {
  const loaded = usePage<RunsPage>(isStatic ? 'runs' : null)
  return useMemo(
    () => (isStatic ? new Set(loaded.state === 'there' ? loaded.page.runs.map(({ run }) => run) : []) : null),
    [loaded],
  )
}

const METRICS = Object.keys(TREND_METRICS) as TrendMetric[]

function Lines({ series, nights, query }: { series: string; nights: TrendNight[]; query: string }) {
  const asked = new URLSearchParams(query)
  const metric = METRICS.find((name) => name === asked.get('metric')) ?? 'score'
  const by: TrendLines = asked.get('lines') === 'role' ? 'role' : 'policy'
  const lines = useMemo(() => trendLines(nights, metric, by), [nights, metric, by])
  const set = (change: { metric?: string; lines?: string }): void =>
    replaceRoute(linkTo('trend', series, new URLSearchParams({ metric, lines: by, ...change }).toString()))
  const band = metric === 'score' ? ', with its 95 % interval' : ''
  return (
    <section>
      <h2>Trend</h2>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Show{' '}
          <select value={metric} onChange={({ currentTarget }) => set({ metric: currentTarget.value })}>
            {METRICS.map((name) => (
              <option key={name} value={name}>
                {TREND_METRICS[name]}
              </option>
            ))}
          </select>
        </label>
        <label>
          a line for each{' '}
          <select value={by} onChange={({ currentTarget }) => set({ lines: currentTarget.value })}>
            <option value="policy">policy and split</option>
            <option value="role">evaluation of the night and split</option>
          </select>
        </label>
      </form>
      {lines.length === 0 ? (
        <p role="status">No night has {TREND_METRICS[metric]}.</p>
      ) : (
        <Curve label={`${TREND_METRICS[metric]}${band}`} series={lines} over="time" />
      )}
    </section>
  )
}

interface NightsProps {
  nights: TrendNight[]
  /** Runs that have a page here; null: all of them. */
  runs: ReadonlySet<string> | null
}

const COLUMNS = ['night', 'evaluation', 'policy', 'split', 'pass@1', 'verdicts', 'lost', 'turns', 'tokens', 'cost']
const NUMBERS = new Set(['lost', 'turns', 'tokens', 'cost'])

function Nights({ nights, runs }: NightsProps) {
  const newestFirst = useMemo(() => nights.toReversed(), [nights])
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Nights">
      <table>
        <thead>
          <tr>
            {COLUMNS.map((name) => (
              <th key={name} scope="col" class={NUMBERS.has(name) ? 'number' : ''}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {newestFirst.map((night) => (
            <NightRow key={`${night.run}/${night.name}`} night={night} runs={runs} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function NightRow({ night, runs }: { night: TrendNight; runs: NightsProps['runs'] }) {
  const { run, name, role, policy, split, revision, lost, turns, sampledTokens, cost, verdicts } = night
  return (
    <tr>
      <td>
        {runs === null || runs.has(run) ? (
          <a href={linkTo('run', run)}>
            {day(night)} <Visible text={run} />
          </a>
        ) : (
          <>
            {day(night)} <Visible text={run} />
          </>
        )}
      </td>
      <td>
        <Visible text={role === 'main' ? name : `${name} (${role})`} />
      </td>
      <td>
        <Visible text={policy} />
      </td>
      <td>
        <Visible text={revision === null ? split : `${split} @ ${revision.slice(0, 7)}`} />
      </td>
      <td>{score(night)}</td>
      <td>
        {verdicts.map((verdict) => (
          <Verdict key={verdict.against} of={verdict} after={{ run, name }} runs={runs} />
        ))}
      </td>
      <td class="number">{(100 * lost).toFixed(1)} %</td>
      <td class="number">{turns.toFixed(1)}</td>
      <td class="number">{sampledTokens === null ? '' : Math.round(sampledTokens).toLocaleString('en')}</td>
      <td class="number">{cost === null ? '' : `${cost.mean.toPrecision(3)} ${cost.currency}`}</td>
    </tr>
  )
}

interface VerdictProps {
  of: TrendVerdict
  after: { run: string; name: string }
  runs: NightsProps['runs']
}

function Verdict({ of, after, runs }: VerdictProps) {
  const { before, statement } = of
  const word = <Word of={of} />
  return (
    <details>
      <summary>{word}</summary>
      <p class="note">
        <Visible text={statement} />{' '}
        {before === null || runs !== null ? null : (
          <a href={linkTo('compare', `${before.run}/${before.name}/${after.run}/${after.name}`)}>
            compare with <Visible text={before.run} />
          </a>
        )}
      </p>
    </details>
  )
}

function Word({ of: { against, outcome } }: { of: TrendVerdict }) {
  return (
    <span class={outcome === 'regressed' ? 'bad' : ''}>
      {outcome === 'regressed' ? '▼ ' : outcome === 'improved' ? '▲ ' : ''}
      {outcome} against the {against === 'last' ? 'last night' : 'baseline'}
    </span>
  )
}

function day({ at }: TrendNight): string {
  return at.slice(0, 16).replace('T', ' ')
}

function score({ passAt1, interval, tasks, attempts }: TrendNight): string {
  const bounds = interval === null ? 'no interval' : `${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`
  return `${passAt1.toFixed(3)} (${bounds}), n = ${tasks}, k = ${attempts}`
}
