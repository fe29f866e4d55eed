import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type {
  EpisodeRow,
  EpisodesPage,
  EvaluationLine,
  LiveMessage,
  ReportPage,
  RunLine,
  RunPage as RunData,
  RunsPage as RunsData,
  TrainingLine,
} from '../../src/viewer/pages.types.ts'
import { linkTo } from '../../src/viewer/shared/address.ts'
import {
  countSeen,
  filterRows,
  readFilter,
  repositoryOf,
  type RowFilter,
  writeFilter,
} from '../../src/viewer/shared/filter-rows.ts'
import { Blockers, useBlockers } from './blockers.tsx'
import { Curve, type CurveSeries } from './curve.tsx'
import { spelled } from '../../src/viewer/shared/visible-text.ts'
import { useLive, usePage, usePlayedPage } from './data.ts'
import { useKeys } from './keys.ts'
import { Outcome, TableView, Waiting, WaitingPage } from './parts.tsx'
import { replaceRoute } from './route.ts'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

export function RunsPage() {
  const loaded = usePage<RunsData>('runs')
  const [chosen, setChosen] = useState(-1)
  if (loaded.state !== 'there') return <WaitingPage of={loaded} what="the runs" title="Runs" up={null} />
  const { runs } = loaded.page
  return (
    <main>
      <p>
        <a href={linkTo('nights', '')}>Nights: trends of evaluations that repeat</a>
      </p>
      <h1>Runs</h1>
      {runs.length === 0 ? <p>This store has no runs.</p> : null}
      {runs.length === 0 ? null : (
        <VirtualRows
          label="Runs"
          columns={RUN_COLUMNS}
          count={runs.length}
          chosen={chosen}
          onChoose={setChosen}
          className="runs"
          row={(index) => {
            const line = runs[index]
            return line === undefined ? [] : cellsOfRun(line)
          }}
        />
      )}
    </main>
  )
}

const RUN_COLUMNS = ['run', 'kind', 'recipe', 'state', 'started (UTC)', 'ended', 'pass@1 ± SEM'] as const

function cellsOfRun({ run, kind, recipe, state, startedAt, endedAt, score }: RunLine) {
  return [
    <a href={linkTo('run', run)}>
      <Visible text={run} />
    </a>,
    kind,
    <Visible text={recipe} />,
    state ?? '',
    minuteOf(startedAt),
    minuteOf(endedAt),
    score === null ? (
      ''
    ) : (
      <>
        {withError(score)} <Visible text={score.name} />
      </>
    ),
  ]
}

/** As reports show it: one task has no standard error, and ± 0.000 would be a wrong one. */
function withError({ passAt1, sem, tasks }: Pick<EvaluationLine, 'passAt1' | 'sem' | 'tasks'>): string {
  return `${passAt1.toFixed(3)} ${tasks < 2 ? '(one task: no SEM)' : `± ${sem.toFixed(3)}`}`
}

function minuteOf(at: string | null): string {
  return at === null ? '' : at.slice(0, 16).replace('T', ' ')
}

export function RunPage({ run, query }: { run: string; query: string }) {
  const waits = useBlockers(run)
  const isPlayed = waits?.isPlayed ?? false
  const loaded = usePlayedPage<RunData>(`run/${run}`, isPlayed)
  const report = usePlayedPage<ReportData>(`report/${run}`, isPlayed)
  useKeys({ u: () => (location.hash = linkTo('', '')) })
  // Without the run nothing else of it is there: one message is enough.
  if (loaded.state === 'failed') {
    return (
      <WaitingPage of={loaded} what="the run" title={`Run ${run}`} up={<a href={linkTo('', '')}>All runs</a>}>
        <NearRuns names={loaded.near ?? []} />
      </WaitingPage>
    )
  }
  return (
    <main>
      <p>
        <a href={linkTo('', '')}>All runs</a>
      </p>
      <h1>
        Run <Visible text={run} />
      </h1>
      {loaded.state === 'there' ? <Facts page={loaded.page} /> : <Waiting of={loaded} what="the run" />}
      <Blockers page={waits} />
      <Episodes run={run} query={query} />
      {loaded.state === 'there' ? <Training lines={loaded.page.training} /> : null}
      {report.state === 'there' ? <Report page={report.page} /> : <Waiting of={report} what="the report" />}
    </main>
  )
}

/** Where a mistyped address may have led. */
function NearRuns({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null
  return (
    <>
      <p>Runs of a like name:</p>
      <ul class="runs">
        {names.map((name) => (
          <li key={name}>
            <a href={linkTo('run', name)}>
              <Visible text={name} />
            </a>
          </li>
        ))}
      </ul>
    </>
  )
}

type ReportData = ReportPage

function Facts({ page: { run, runKind, recipe, evaluations, series } }: { page: RunData }) {
  return (
    <>
      <p>
        {runKind}
        {recipe === null
          ? ''
          : `, recipe ${recipe.name} (${recipe.hash.slice(0, 12)}), seed ${recipe.seed}, base ${recipe.base}`}
      </p>
      {evaluations.length === 0 ? null : <Evaluations run={run} evaluations={evaluations} />}
      {series.map((one) => (
        <p key={one}>
          <a href={linkTo('trend', one)}>
            Nights of <Visible text={one} />
          </a>
        </p>
      ))}
    </>
  )
}

function Evaluations({ run, evaluations }: { run: string; evaluations: EvaluationLine[] }) {
  return (
    <section>
      <h2>Evaluations</h2>
      <ul>
        {evaluations.map(
          ({ name, stage, passAt1, sem, interval, tasks, attempts, policy, infra, suspectedHacks }, at) => {
            const before = evaluations[at - 1]
            const earlier = before !== undefined && before.suite === evaluations[at]?.suite ? before : undefined
            return (
              <li key={name}>
                <a href={linkTo('run', run, writeFilter({ ...readFilter(''), stage }))}>
                  <Visible text={name} />
                </a>
                : pass@1 {withError({ passAt1, sem, tasks })}
                {interval === null ? '' : `, 95 % interval ${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`},
                n = {tasks}, k = {attempts}, infra {infra}, hacks {suspectedHacks}, policy <Visible text={policy} />{' '}
                {earlier === undefined ? null : (
                  <a href={linkTo('compare', `${run}/${earlier.name}/${run}/${name}`)}>
                    compare with <Visible text={earlier.name} />
                  </a>
                )}
              </li>
            )
          },
        )}
      </ul>
    </section>
  )
}

const NO_ROWS: EpisodeRow[] = []
const COLUMNS = ['task', 'stage', 'iteration', 'attempt', 'outcome', 'reason', 'turns', 'tokens', 'signs'] as const

function Episodes({ run, query }: { run: string; query: string }) {
  const loaded = usePage<EpisodesPage>(`episodes/${run}`)
  const [changed, setChanged] = useState<ReadonlyMap<string, EpisodeRow>>(new Map())
  const follow = useCallback((message: LiveMessage): void => {
    if (message.kind !== 'rows') return
    setChanged((before) => new Map([...before, ...message.rows.map((row) => [row.episode, row] as const)]))
  }, [])
  const isThere = loaded.state === 'there'
  const stored = isThere ? loaded.page.rows : NO_ROWS
  useLive(isThere ? `run/${run}` : null, countSeen(stored), follow)
  const rows = useMemo(() => merge(stored, changed), [stored, changed])
  const filter = useMemo(() => readFilter(query), [query])
  const shown = useMemo(() => filterRows(rows, filter), [rows, filter])
  const [chosen, setChosen] = useState(-1)
  const search = useRef<HTMLInputElement>(null)
  useEffect(() => setChosen(-1), [query])
  const set = (change: Partial<RowFilter>): void =>
    replaceRoute(linkTo('run', run, writeFilter({ ...filter, ...change })))
  const open = (at: number): void => {
    const row = shown[at]
    if (row !== undefined) location.hash = linkTo('episode', row.episode)
  }
  const step = (by: number): void => setChosen((at) => Math.max(0, Math.min(shown.length - 1, at + by)))
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    Enter: () => open(chosen),
    '/': () => search.current?.focus(),
  })
  if (!isThere) return <Waiting of={loaded} what="the episodes" />
  return (
    <section>
      <h2>Episodes</h2>
      <Filters rows={rows} filter={filter} set={set} search={search} />
      <p role="status" class="count">
        {shown.length.toLocaleString('en')} of {rows.length.toLocaleString('en')} episodes: {tally(shown)}. Keys: j, k
        to choose, Enter to open, / to search.
      </p>
      <VirtualRows
        label="Episodes"
        columns={COLUMNS}
        count={shown.length}
        chosen={chosen}
        onChoose={setChosen}
        className="episodes"
        row={(index) => {
          const row = shown[index]
          return row === undefined ? [] : cellsOf(row)
        }}
      />
    </section>
  )
}

function cellsOf(row: EpisodeRow) {
  const { episode, taskId, stage, iteration, index, reason, failure, turns, sampledTokens, signs, audit } = row
  return [
    <a href={linkTo('episode', episode)}>
      <Visible text={taskId} />
    </a>,
    <Visible text={stage} />,
    iteration,
    index,
    <Outcome row={row} />,
    <Visible text={[reason, failure, audit === null ? null : `audit ${audit}`].filter(Boolean).join(', ')} />,
    turns ?? '',
    sampledTokens ?? '',
    signs.join(', '),
  ]
}

function merge(stored: EpisodeRow[], changed: ReadonlyMap<string, EpisodeRow>): EpisodeRow[] {
  if (changed.size === 0) return stored
  const known = new Set(stored.map(({ episode }) => episode))
  const added = [...changed.values()].filter(({ episode }) => !known.has(episode))
  return [...stored.map((row) => changed.get(row.episode) ?? row), ...added]
}

function tally(rows: readonly EpisodeRow[]): string {
  const counts = Map.groupBy(rows, ({ verdict, state }) => verdict ?? state)
  const words = [...counts].map(([word, { length }]) => `${length} ${word}`)
  return words.length === 0 ? 'none' : words.join(', ')
}

interface FiltersProps {
  rows: EpisodeRow[]
  filter: RowFilter
  set: (change: Partial<RowFilter>) => void
  search: { current: HTMLInputElement | null }
}

function Filters({ rows, filter, set, search }: FiltersProps) {
  const values = useMemo(
    () => ({
      stage: distinct(rows.map(({ stage }) => stage)),
      state: distinct(rows.map(({ state }) => state)),
      verdict: distinct(rows.map(({ verdict }) => verdict ?? 'none')),
      reason: distinct(rows.flatMap(({ reason, failure }) => [reason, failure].filter((one) => one !== null))),
      repository: distinct(rows.map(({ taskId }) => repositoryOf(taskId))),
      sign: distinct(rows.flatMap(({ signs }) => signs)),
    }),
    [rows],
  )
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <label>
        Search{' '}
        <input
          ref={search}
          type="search"
          value={filter.words}
          onInput={({ currentTarget }) => set({ words: currentTarget.value })}
        />
      </label>
      {(['stage', 'state', 'verdict', 'reason', 'repository', 'sign'] as const).map((key) => (
        <label key={key}>
          {key}{' '}
          <select value={filter[key]} onChange={({ currentTarget }) => set({ [key]: currentTarget.value })}>
            <option value="">all</option>
            {values[key].map((value) => (
              <option key={value} value={value}>
                {spelled(value)}
              </option>
            ))}
          </select>
        </label>
      ))}
      <label>
        only{' '}
        <select
          value={filter.only}
          onChange={({ currentTarget }) => set({ only: currentTarget.value as RowFilter['only'] })}
        >
          <option value="">all</option>
          <option value="flip">tasks both resolved and not</option>
          <option value="hack">suspected hacks</option>
          <option value="void">void audits</option>
          <option value="failed">failures</option>
        </select>
      </label>
      <button type="button" class="link" onClick={() => set(readFilter(''))}>
        clear
      </button>
    </form>
  )
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].sort()
}

function Training({ lines }: { lines: TrainingLine[] }) {
  const metrics = useMemo(
    () => distinct(lines.flatMap(({ steps }) => steps.flatMap((step) => Object.keys(step)))),
    [lines],
  )
  const [metric, setMetric] = useState('loss')
  const series = useMemo(() => seriesOf(lines, metric), [lines, metric])
  const alarms = lines.flatMap(({ stage, iteration, alarms }) =>
    alarms.map((alarm) => ({ stage, iteration, ...alarm })),
  )
  if (lines.length === 0) return null
  return (
    <section>
      <h2>Training</h2>
      {alarms.length === 0 ? (
        <p>No alarm.</p>
      ) : (
        <ul>
          {alarms.map(({ stage, iteration, step, metric, value, side, limit }, at) => (
            <li key={at}>
              ⚠ {stage} {iteration}, step {step}: {metric} {value ?? 'is no number'} {side} {limit}
            </li>
          ))}
        </ul>
      )}
      <label>
        Metric{' '}
        <select value={metric} onChange={({ currentTarget }) => setMetric(currentTarget.value)}>
          {metrics.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <Curve label={`${metric} by optimizer step`} series={series} />
    </section>
  )
}

/** Steps are counted over all jobs of a stage. */
function seriesOf(lines: TrainingLine[], metric: string): CurveSeries[] {
  return [...Map.groupBy(lines, ({ stage }) => stage)].map(([label, jobs]) => ({
    label,
    points: jobs
      .flatMap(({ steps }) => steps)
      .flatMap((step, at) => {
        const y = step[metric]
        return y === undefined ? [] : [{ x: at + 1, y }]
      }),
  }))
}

function Report({ page: { tables, curve, problem } }: { page: ReportPage }) {
  const series = useMemo(
    () =>
      (['evaluation', 'rollout'] as const)
        .map((kind): CurveSeries => {
          const points = curve.filter((point) => point.kind === kind)
          return { label: kind, points: points.map(({ globalStep, mean, sem }) => ({ x: globalStep, y: mean, sem })) }
        })
        .filter(({ points }) => points.length > 0),
    [curve],
  )
  return (
    <section>
      <h2>Report</h2>
      {problem === null ? null : (
        <p role="status">
          No report yet: <Visible text={problem} />
        </p>
      )}
      {series.length === 0 ? null : <Curve label="pass@1 ± SEM by optimizer step" series={series} />}
      {tables.map((table) => (
        <TableView key={table.title} table={table} />
      ))}
    </section>
  )
}
