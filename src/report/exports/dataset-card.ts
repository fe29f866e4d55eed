/** README.md of a data set of trajectories, as the Hugging Face hub and `datasets` read it. */
import type { TableType } from '../../contracts/exports.types.ts'
import { compareText } from '../../domain/hash-order.ts'
import { isValidEpisode } from '../../domain/ledger/episode-fates.ts'
import { paymentOf } from '../../domain/rewards/payment.ts'
import { markdownText } from '../../domain/hostile-text.ts'
import type { EpisodeFacts } from './episode-columns.ts'
import { TRAJECTORY_COLUMNS } from './trajectory.ts'

export const DATASET_SPLITS = ['train', 'evaluation'] as const
export type DatasetSplit = (typeof DATASET_SPLITS)[number]

/** Counts that are filled episode by episode; no episode stays in memory. */
export interface DatasetTally {
  splits: Map<DatasetSplit, SplitTally>
  /** By version: SHA-256 of the manifest. */
  policies: Map<string, string | null>
  scaffolds: Set<string>
  /** `<data set> at <revision>`. */
  datasets: Set<string>
  suites: Set<string>
  /** Episodes by licence of their repository. */
  licenses: Map<string, number>
}

interface SplitTally {
  episodes: number
  turns: number
  dispositions: Map<string, number>
  /** Numbers of episodes: with an outcome, resolved officially, paid. */
  graded: number
  resolved: number
  paid: number
}

export function createTally(): DatasetTally {
  return {
    splits: new Map(),
    policies: new Map(),
    scaffolds: new Set(),
    datasets: new Set(),
    suites: new Set(),
    licenses: new Map(),
  }
}

export function addToTally(
  tally: DatasetTally,
  split: DatasetSplit,
  facts: EpisodeFacts,
  license: string | null,
): void {
  const { record, spec, dataset, suite, policyManifest, unaudited } = facts
  const of = tally.splits.get(split) ?? emptySplit()
  tally.splits.set(split, of)
  of.episodes += 1
  count(tally.licenses, license ?? 'not stated')
  if (spec !== null) tally.scaffolds.add(spec.scaffold)
  if (suite !== null) tally.suites.add(suite)
  if (dataset !== null) tally.datasets.add(`${dataset.dataset} at ${dataset.revision ?? 'no revision'}`)
  if (record === null) return
  of.turns += record.turns
  count(of.dispositions, record.disposition)
  tally.policies.set(record.policy, policyManifest)
  if (!isValidEpisode(record)) return
  of.graded += 1
  if (record.verdict === 'resolved') of.resolved += 1
  if (paymentOf(record, unaudited) === 'paid') of.paid += 1
}

function emptySplit(): SplitTally {
  return { episodes: 0, turns: 0, dispositions: new Map(), graded: 0, resolved: 0, paid: 0 }
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

export interface DatasetCardInput {
  run: string
  stages: readonly string[]
  recipeHash: string | null
  /** The hub's name of a licence; null if the caller names none. */
  license: string | null
  tally: DatasetTally
  /** Episodes that are not in the data set. */
  leftOut: { unfinished: number; unreadable: number }
}

export function renderDatasetCard(input: DatasetCardInput): string {
  return `${header(input)}\n${body(input)}`
}

/** Texts are written as JSON, which is valid YAML for any content. */
function header({ run, license, tally }: DatasetCardInput): string {
  const splits = DATASET_SPLITS.filter((split) => tally.splits.has(split))
  return [
    '---',
    `pretty_name: ${JSON.stringify(`Trajectories of ${run}`)}`,
    `license: ${license ?? 'unknown'}`,
    'tags:',
    '- agent-trajectories',
    '- software-engineering',
    'configs:',
    '- config_name: default',
    '  data_files:',
    ...splits.flatMap((split) => [`  - split: ${split}`, `    path: data/${split}-*.parquet`]),
    'dataset_info:',
    '  features:',
    ...TRAJECTORY_COLUMNS.flatMap(({ name, type }) => feature(name, type, '  ')),
    '---',
    '',
  ].join('\n')
}

const DTYPES = {
  text: 'string',
  integer: 'int64',
  int32: 'int32',
  number: 'float64',
  float32: 'float32',
  boolean: 'bool',
  time: 'timestamp[ms, tz=UTC]',
} as const

function feature(name: string, type: TableType, indent: string): string[] {
  return [`${indent}- name: ${name}`, ...featureType(type, `${indent}  `)]
}

function featureType(type: TableType, indent: string): string[] {
  if (typeof type === 'string') return [`${indent}dtype: ${DTYPES[type]}`]
  if ('struct' in type) {
    return [
      `${indent}struct:`,
      ...Object.entries(type.struct).flatMap(([field, inner]) => feature(field, inner, indent)),
    ]
  }
  const { list } = type
  if (typeof list === 'string') return [`${indent}list: ${DTYPES[list]}`]
  if ('list' in list) return [`${indent}list:`, ...featureType(list, `${indent}  `)]
  return [`${indent}list:`, ...Object.entries(list.struct).flatMap(([field, inner]) => feature(field, inner, indent))]
}

function body(input: DatasetCardInput): string {
  const { run, stages, recipeHash, license, tally, leftOut } = input
  const sorted = (values: Iterable<string>): string =>
    [...values]
      .toSorted(compareText)
      .map((one) => markdownText(one))
      .join(', ')
  const policies = [...tally.policies].map(([version, hash]) => (hash === null ? version : `${version} (${hash})`))
  const licenses = [...tally.licenses].map(([name, episodes]) => `${name} (${episodes} episodes)`)
  return `# Trajectories of ${markdownText(run)}

Each row is one episode: one attempt of a policy at one task in a sandbox, with its turns, its patch and what grading found. Written by
\`longhaul export\` from the records of the run.

| | |
|---|---|
| run | ${markdownText(run)} |
| stages | ${sorted(stages)} |
| recipe, SHA-256 | ${recipeHash === null ? 'not stored' : markdownText(recipeHash)} |
| policies, SHA-256 of the manifest | ${sorted(policies)} |
| scaffolds | ${sorted(tally.scaffolds)} |
| data sets | ${sorted(tally.datasets)} |
| suites, SHA-256 | ${sorted(tally.suites)} |
| left out | ${leftOut.unfinished} episodes that had not ended, ${leftOut.unreadable} with a corrupt record |

| split | episodes | turns | with an outcome | resolved officially | resolved and paid | endings |
|---|---|---|---|---|---|---|
${DATASET_SPLITS.flatMap((split) => splitLine(split, tally.splits.get(split))).join('\n')}

\`load_dataset\` reads this directory; \`sha256sum -c SHA256SUMS\` proves its files.

## Before you train on it

- The split \`evaluation\` holds attempts at held-out tasks. Training on them spoils every later score on these tasks.
- \`outcome_audited\` is what rewards were paid for. A row with \`outcome_official\` 1 and \`outcome_audited\` 0 passed its tests in a way that
  an audit or a sign of a hack speaks against.
- Rows without an outcome (\`infra\`, \`could-not-grade\`) say nothing about the policy.
- Texts of tasks and programs are untrusted and may hold anything. In \`messages\`, a backslash breaks the special tokens of chat formats in them.

## Licence

${license === null ? 'No licence was named for this collection.' : `This collection: ${markdownText(license)}.`} Statements, outputs and patches hold parts of the tasks' repositories, under
those repositories' licences: ${sorted(licenses)}.

## Columns

| column | type | what it says |
|---|---|---|
${TRAJECTORY_COLUMNS.map(({ name, type, says }) => `| \`${name}\` | ${typeName(type)} | ${says} |`).join('\n')}
`
}

function splitLine(split: DatasetSplit, tally: SplitTally | undefined): string[] {
  if (tally === undefined) return []
  const { episodes, turns, graded, resolved, paid } = tally
  const endings = [...tally.dispositions].toSorted(([a], [b]) => compareText(a, b)).map(([name, n]) => `${n} ${name}`)
  return [`| ${split} | ${episodes} | ${turns} | ${graded} | ${resolved} | ${paid} | ${endings.join(', ')} |`]
}

function typeName(type: TableType): string {
  if (typeof type === 'string') return DTYPES[type]
  if ('list' in type) return `list of ${typeName(type.list)}`
  return `{ ${Object.keys(type.struct).join(', ')} }`
}
