/** Tables of a run's costs and of what its scores rest on. */
import type { Amount, LostWork, Spent, StageCosts } from '../contracts/costs.types.ts'
import type { ReportData } from './report-data.ts'
import { number, type Table, text } from './tables.ts'

const UNKNOWN = 'unknown'

const COUNTED: readonly Exclude<keyof Spent, 'money'>[] = [
  'trainerSeconds',
  'sandboxSeconds',
  'gradingSeconds',
  'promptTokens',
  'sampledTokens',
]

export function runCostTable({ costs }: Pick<ReportData, 'costs'>): Table {
  const { stages, whole, prices } = costs
  const money = prices === null ? [] : [number(prices.currency)]
  return {
    title: 'What the run cost',
    columns: [text('stage'), ...columns(costs), ...money, number('episodes'), number('of them lost'), number('open')],
    rows: withWhole(stages, whole).map(({ stage, spent, episodes, lostEpisodes, openEpisodes }) => [
      stage,
      ...COUNTED.map((of) => showAmount(spent[of], of)),
      ...(prices === null ? [] : [showAmount(spent.money, 'money')]),
      String(episodes),
      String(lostEpisodes),
      String(openEpisodes),
    ]),
    notes: [
      'Derived from records only, for everything that was begun, lost and replaced work included. Trainer: wall seconds of every attempt at a job × its processes. Sandbox: from its placement to its last sign of life. "≥": n records lack the number; "unknown": all of them do. Not included: samples that a crash lost before they were stored, time of policy servers, windows of base policies.',
      ...(prices === null ? ['No money: the recipe has no prices (evaluate.prices).'] : [formatPrices(prices)]),
    ],
  }
}

export function resolvedCostTable({ costs }: Pick<ReportData, 'costs'>): Table {
  const { stages, whole, prices } = costs
  const money = prices === null ? [] : [number(prices.currency)]
  const resolving = withWhole(stages, whole).filter(({ resolvedTasks }) => resolvedTasks > 0)
  return {
    title: 'What a resolved task cost',
    columns: [text('stage'), number('resolved tasks'), ...columns(costs), ...money],
    rows: resolving.map(({ stage, resolvedTasks, spent, perResolvedTask }) => {
      const share = (of: keyof Spent): string =>
        showAmount({ ...spent[of], total: perResolvedTask[of] }, of === 'money' ? 'money' : 'share')
      return [stage, String(resolvedTasks), ...COUNTED.map(share), ...(prices === null ? [] : [share('money')])]
    }),
    notes: ['All costs of a stage divided by the number of tasks that any of its attempts resolved.'],
  }
}

export function lostCostTable({ costs: { stages, device } }: Pick<ReportData, 'costs'>): Table {
  return {
    title: 'Paid for and lost',
    columns: [text('stage'), text('what'), text('because'), number('how many'), ...columns({ device })],
    rows: stages.flatMap(({ stage, lost }) => lost.map((work) => [stage, ...showLost(work)])),
    notes: [
      'Part of the costs above. Episode: one without a verdict that counts, with all of its sandboxes and gradings. Sandbox, grading, trainer: work that was repeated for an episode or job that counts; stored turns and steps were not lost.',
    ],
  }
}

function showLost({ what, because, count, spent }: LostWork): string[] {
  return [
    what,
    because,
    String(count),
    ...COUNTED.map((of) => (isNothing(spent[of]) ? '–' : showAmount(spent[of], of))),
  ]
}

function isNothing({ told, unknown }: Amount): boolean {
  return told + unknown === 0
}

function columns({ device }: Pick<ReportData['costs'], 'device'>): Table['columns'] {
  const trainer = device === null ? 'trainer s' : `trainer ${device === 'cuda' ? 'GPU' : 'CPU'} s`
  return [trainer, 'sandbox s', 'grading s', 'tokens read', 'tokens sampled'].map(number)
}

/** Adds a row for the whole run. */
function withWhole(stages: readonly StageCosts[], whole: StageCosts): StageCosts[] {
  return stages.length === 0 ? [] : [...stages, whole]
}

const DIGITS: Record<keyof Spent | 'share', number> = {
  trainerSeconds: 1,
  sandboxSeconds: 1,
  gradingSeconds: 1,
  promptTokens: 0,
  sampledTokens: 0,
  money: 4,
  share: 1,
}

function showAmount({ total, unknown }: Amount, of: keyof typeof DIGITS): string {
  if (total === null) return UNKNOWN
  const shown = total.toFixed(DIGITS[of])
  return unknown === 0 ? shown : `≥ ${shown} (${unknown} ${UNKNOWN})`
}

function formatPrices({ currency, perMillionTokens, machines }: NonNullable<ReportData['costs']['prices']>): string {
  const tokens =
    perMillionTokens === null
      ? 'tokens are free'
      : `a million tokens ${perMillionTokens.input} read, ${perMillionTokens.cachedInput ?? perMillionTokens.input} cached, ${perMillionTokens.output} sampled`
  const rented = machines.map(({ name, count, perHour }) => `${count} × ${name} ${perHour} an hour`)
  return `Prices of the recipe (evaluate.prices), ${currency}: ${[tokens, ...rented].join('; ')}. Machines cost while an iteration is played or a trainer works, each second once. Gates are not included.`
}

/** Provenance of each score; `report.json` has the whole hashes. */
export function lineageTable({ lineage }: ReportData): Table {
  return {
    title: 'What the scores rest on',
    columns: [
      text('evaluation'),
      text('policy'),
      text('manifest'),
      text('made from'),
      text('suite'),
      text('data set'),
      text('revision'),
      number('images'),
      text('hash of images'),
      text('grading'),
    ],
    rows: lineage.evaluations.map(({ name, policies, suite, dataset, revision, images, grading }) => {
      const policy = policies.at(-1)
      return [
        name,
        policy?.version ?? UNKNOWN,
        short(policy?.manifestSha256),
        showChain(policies.slice(0, -1).map(({ version }) => version)),
        short(suite),
        dataset ?? UNKNOWN,
        short(revision),
        images.unknown === 0 ? String(images.count) : `${images.count} (${images.unknown} ${UNKNOWN})`,
        images.count === 0 ? UNKNOWN : short(images.sha256),
        grading.length === 0 ? 'no container graded' : grading.join(', '),
      ]
    }),
    notes: [
      `Recipe ${short(lineage.recipeSha256)}. ${lineage.code.length === 0 ? 'The code that resolved the run is unknown: its records are of an earlier version.' : `Resolved by ${lineage.code.map(showCode).join('; then by ')}.`} Whole hashes: longhaul report RUN --json.`,
    ],
  }
}

export function policyTable({ lineage: { policies } }: ReportData): Table {
  return {
    title: 'Policies',
    columns: [text('policy'), text('manifest'), text('trained in'), text('from'), text('promotion')],
    rows: policies.map(({ version, manifestSha256, by, parent, promotion }) => [
      version,
      short(manifestSha256),
      by === null ? '–' : `${by.run}/${by.stage} ${by.iteration}`,
      parent ?? '–',
      promotion === null ? '' : String(promotion),
    ]),
    notes: [],
  }
}

function showCode({ version, revision, filesSha256 }: ReportData['lineage']['code'][number]): string {
  const commit = revision === null ? 'no checkout' : `commit ${short(revision)}`
  return `Longhaul ${version} (${commit}, files ${short(filesSha256)})`
}

function showChain(versions: readonly string[]): string {
  if (versions.length <= 3) return versions.length === 0 ? '–' : versions.join(' → ')
  return `${versions.at(0)} → ${versions.length - 2} more → ${versions.at(-1)}`
}

function short(hash: string | null | undefined): string {
  if (hash === null || hash === undefined || hash === '') return UNKNOWN
  return /^[0-9a-f]{13,}$/.test(hash) ? hash.slice(0, 12) : hash
}
