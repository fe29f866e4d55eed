/** The part of `docs/reliability.md` that a chaos run writes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { cellsOf } from './cells.ts'
import { type Setting, SETTINGS } from './chaos-stack.ts'
import { faultsOn } from './faults.ts'
import { PHASES } from './phases.ts'
import type { SeedReport } from './play-seed.ts'

export interface ChaosSummary {
  date: string
  seeds: number
  firstSeed: number
  minutes: number
  violations: number
  failures: unknown[]
  reports: readonly SeedReport[]
}

const FILE = fileURLToPath(new URL('../../../docs/reliability.md', import.meta.url))
const MARKS: Readonly<Record<Setting, string>> = {
  directory: '<!-- everything from here to the next mark is written by npm run chaos -->',
  s3: '<!-- everything from here to the next mark is written by npm run chaos -- --store s3 -->',
  pods: '<!-- everything below is written by npm run chaos -- --sandboxes pods -->',
}
const TITLES: Readonly<Record<Setting, string>> = {
  directory: 'Last run',
  s3: 'Last run on a bucket',
  pods: 'Last run in pods',
}

export function writeReliabilityTable(summary: ChaosSummary & Record<string, unknown>, setting: Setting): void {
  writeFileSync(FILE, withTable(readFileSync(FILE, 'utf8'), setting, reliabilityTable(summary, setting)))
}

/** The page with the table of this setting replaced. */
export function withTable(page: string, setting: Setting, table: string): string {
  const [head = ''] = page.split(MARKS.directory)
  const parts = SETTINGS.map((one, place) => {
    const [, rest = ''] = page.split(MARKS[one])
    const next = SETTINGS.slice(place + 1).find((other) => rest.includes(MARKS[other]))
    const old = next === undefined ? rest : rest.slice(0, rest.indexOf(MARKS[next]))
    return `${MARKS[one]}\n\n${(one === setting ? table : old).trim()}\n`
  })
  return `${head}${parts.join('\n')}`
}

/** Each commit with the seeds that were played at it. */
function commitsOf(reports: readonly SeedReport[], newest: string): string {
  const played = Map.groupBy(reports, ({ commit }) => commit ?? newest)
  if (played.size <= 1) return newest.slice(0, 12)
  return [...played]
    .map(([commit, of]) => {
      const seeds = of.map(({ seed }) => seed)
      const which =
        seeds.length === 1
          ? `1 seed, ${seeds[0]}`
          : `${seeds.length} seeds from ${Math.min(...seeds)} to ${Math.max(...seeds)}`
      return `${commit.slice(0, 12)}: ${which}`
    })
    .join('; ')
}

/** Runs by fault and phase; `–` if a fault cannot strike, `0` if it could but has not. */
export function reliabilityTable(summary: ChaosSummary & Record<string, unknown>, setting: Setting): string {
  const { date, seeds, firstSeed, minutes, violations, failures, reports } = summary
  const faults = faultsOn(setting)
  const phases = PHASES.filter((phase) => faults.some((fault) => fault.phases.includes(phase)))
  const rows = faults.map((fault) => {
    const counts = phases.map((phase) => {
      if (!fault.phases.includes(phase)) return '–'
      const played = reports.filter(({ cells }) =>
        cells.some((cell) => cell.fault === fault.name && cell.phase === phase && cell.struck),
      )
      const broken = played.filter(({ violations: found }) => found.length > 0).length
      return broken === 0 ? String(played.length) : `${played.length} (${broken} broken)`
    })
    return `| ${fault.name} | ${counts.join(' | ')} |`
  })
  const all = cellsOf(faults, phases).length
  const covered = rows.reduce(
    (sum, row) =>
      sum +
      row
        .split(' | ')
        .slice(1)
        .filter((text) => /^[1-9]/.test(text)).length,
    0,
  )
  const sum = (pick: (report: SeedReport) => number): number =>
    reports.reduce((total, report) => total + pick(report), 0)
  const { node, temporalSdk, engine } = summary
  const facts = [
    `| seeds | ${seeds} from ${firstSeed} to ${Math.max(...reports.map(({ seed }) => seed))}, ${minutes} minutes |`,
    `| date | ${date.slice(0, 10)} |`,
    `| commit | ${commitsOf(reports, String(summary['commit']))} |`,
    `| versions | Node ${String(node)}, Temporal SDK ${String(temporalSdk)}, Docker engine ${String(engine)} |`,
    `| runs | ${reports.filter(({ kind }) => kind === 'evaluation').length} evaluations, ${reports.filter(({ kind }) => kind === 'training').length} trainings |`,
    `| episodes, turns | ${sum(({ episodes }) => episodes)}, ${sum(({ turns }) => turns)} |`,
    `| faults that struck | ${sum(({ cells }) => cells.filter(({ struck }) => struck).length)} |`,
    `| cells covered | ${covered} of ${all} |`,
    `| samples lost before their record | ${sum(({ sampledAgain }) => sampledAgain)} |`,
    `| broken invariants | ${violations} |`,
    `| seeds that could not be played | ${failures.length} |`,
  ]
  return [
    `## ${TITLES[setting]}`,
    '',
    '| | |',
    '|---|---|',
    ...facts,
    '',
    'Runs in which a fault struck at a phase:',
    '',
    `| fault | ${phases.join(' | ')} |`,
    `|---${'|---'.repeat(phases.length)}|`,
    ...rows,
    '',
  ].join('\n')
}
