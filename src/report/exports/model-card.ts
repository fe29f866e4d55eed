/** README.md of a model, as the Hugging Face hub reads it. Names and texts of records are untrusted, so all of them are escaped. */
import type { EvaluationRecord, StoredInterval } from '../../contracts/evaluations.types.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import type { SuiteOrigin } from '../../contracts/suites.types.ts'
import { compareText } from '../../domain/hash-order.ts'
import { markdownText, oneLine } from '../../domain/hostile-text.ts'

export interface ModelFacts {
  policy: { version: string; manifestSha256: string; globalStep: number }
  /** Run that trained the policy; null for a base, or if its records are gone. */
  run: string | null
  recipe: {
    name: string
    hash: string
    seed: number
    /** Name of the base's directory, without its path. */
    base: string
    train: 'full' | 'lora'
    lora: { rank: number; alpha: number } | null
    /** Context of evaluations, in tokens. */
    context: number
    /** End of the base model's training data, as in recipes. */
    cutoff: string | null
  } | null
  chatFormat: string | null
  /** The policy from which training started; null for a base, or if no record names it. */
  base: CardBase | null
  /** The hub's model that was imported as this policy. */
  origin: { model: string; revision: string } | null
  /** In the order of training. */
  training: CardTraining[]
  /** Suites that were trained on. */
  suites: CardSuite[]
  /** Tasks that were played for training, by licence of their repository; null if the row names none. */
  licenses: { name: string | null; tasks: number }[]
  evaluations: CardEvaluation[]
}

export interface CardBase {
  version: string
  manifestSha256: string
  origin: ModelFacts['origin']
}

export interface CardTraining {
  stage: string
  jobs: number
  /** Optimizer steps. */
  steps: number
}

interface CardSuite {
  suite: string
  uses: string[]
  tasks: number
  origin: SuiteOrigin | null
}

export interface CardEvaluation {
  record: EvaluationRecord
  origin: SuiteOrigin | null
}

export interface ModelCardInput {
  facts: ModelFacts
  /** Whole weights, or adapters alone. */
  kind: 'model' | 'adapter'
  /** `OWNER/NAME` on the hub; NAME is also the directory of a download. */
  repository: string
  branch: string
  /** The hub's name of the licence; null if the caller names none. */
  license: string | null
  /** Start commands as `longhaul policy-server command` prints them, for the directory NAME. */
  serve: { engine: string; command: string }[]
  /** Names and hashes of the published files. */
  files: readonly { path: string; sha256: string }[]
}

export function renderModelCard(input: ModelCardInput): string {
  return `---\n${yaml(header(input))}---\n\n${body(input)}`
}

type Yaml = string | number | boolean | Yaml[] | { [key: string]: Yaml | undefined }

function header({ facts, kind, license, repository }: ModelCardInput): { [key: string]: Yaml | undefined } {
  const trainedFrom = facts.base?.origin ?? null
  const base = trainedFrom ?? facts.origin
  const datasets = [...new Set(facts.suites.flatMap(({ origin }) => hubDataset(origin) ?? []))].toSorted(compareText)
  const results = facts.evaluations.map(resultOf)
  return {
    license: license ?? 'unknown',
    library_name: kind === 'adapter' ? 'peft' : 'transformers',
    pipeline_tag: 'text-generation',
    ...(base === null ? {} : { base_model: base.model }),
    ...(trainedFrom === null ? {} : { base_model_relation: kind === 'adapter' ? 'adapter' : 'finetune' }),
    tags: [
      'longhaul',
      'software-engineering',
      'agent',
      ...(facts.training.some(({ stage }) => purposeOf(stage).kind === 'reinforce') ? ['reinforcement-learning'] : []),
    ],
    ...(datasets.length === 0 ? {} : { datasets }),
    ...(results.length === 0 ? {} : { 'model-index': [{ name: repository.split('/').at(-1) ?? repository, results }] }),
  }
}

/** A result as `huggingface_hub` reads it, with interval, tasks and attempts in `args`. */
function resultOf({ record, origin }: CardEvaluation): Yaml {
  const { official, audited, attempts, suite } = record
  const { dataset, revision, split } = origin ?? { dataset: 'unknown', revision: null, split: null }
  const metric = (name: string, score: Score): Yaml => ({
    type: 'pass@1',
    name: `pass@1, ${name}`,
    value: round(score.passAt1),
    args: {
      tasks: score.tasks,
      attempts_per_task: attempts,
      ...(score.interval === null ? {} : { interval_95: [round(score.interval.low), round(score.interval.high)] }),
    },
    verified: false,
  })
  return {
    task: { type: 'text-generation', name: 'repairing software repositories' },
    dataset: {
      type: hubDataset(origin) ?? 'longhaul-suite',
      name: oneLine(dataset, 200),
      ...(revision === null ? {} : { revision: oneLine(revision, 80) }),
      ...(split === null ? {} : { split: oneLine(split, 80) }),
      args: { suite: oneLine(suite, 80), run: oneLine(record.run, 120), evaluation: oneLine(record.name, 120) },
    },
    metrics: [metric('official', official), ...(audited === undefined ? [] : [metric('audited', audited)])],
  }
}

interface Score {
  passAt1: number
  interval: StoredInterval | null
  tasks: number
}

/** The hub's name of the data set, with its owner; null for a file and for synthesised tasks. */
function hubDataset(origin: SuiteOrigin | null): string | null {
  if (origin === null || !/^[0-9a-f]{40}$/.test(origin.revision ?? '')) return null
  return /^[\w.-]{1,96}\/[\w.-]{1,96}$/.test(origin.dataset) ? origin.dataset : null
}

function round(value: number): number {
  return Number(value.toFixed(4))
}

/** Blocks with plain keys. Texts are written as JSON, which is valid YAML once hidden characters are escaped. */
function yaml(value: { [key: string]: Yaml | undefined }, indent = ''): string {
  return Object.entries(value)
    .flatMap(([key, one]) => (one === undefined ? [] : [`${indent}${key}:${yamlValue(one, indent)}`]))
    .join('')
}

function yamlValue(value: Yaml, indent: string): string {
  if (typeof value !== 'object') return ` ${scalar(value)}\n`
  if (!Array.isArray(value)) return `\n${yaml(value, `${indent}  `)}`
  if (value.every((one) => typeof one !== 'object')) return ` [${value.map(scalar).join(', ')}]\n`
  return `\n${value.map((one) => `${indent}- ${yamlItem(one, `${indent}  `)}`).join('')}`
}

/** The first key follows the dash. */
function yamlItem(value: Yaml, indent: string): string {
  return typeof value === 'object' && !Array.isArray(value)
    ? yaml(value, indent).slice(indent.length)
    : yamlValue(value, indent).trimStart()
}

function scalar(value: string | number | boolean): string {
  return typeof value === 'string' ? JSON.stringify(oneLine(value)) : String(value)
}

function body(input: ModelCardInput): string {
  const { facts, kind, repository, license, files } = input
  const { policy, recipe } = facts
  return `# ${markdownText(repository)}

${policy.globalStep === 0 ? 'A base policy' : 'A policy trained'} for repairing software repositories as an agent, in a shell inside a sandbox. Written by \`longhaul publish\` from the
records of the run.

| | |
|---|---|
| policy | ${policy.version} |
| SHA-256 of its manifest | ${policy.manifestSha256} |
| optimizer steps | ${policy.globalStep} |
| run | ${facts.run === null ? 'not known' : markdownText(facts.run)} |
| recipe | ${recipe === null ? 'not known' : `${markdownText(recipe.name)}, seed ${recipe.seed}`} |
| recipe, SHA-256 | ${recipe === null ? 'not known' : markdownText(recipe.hash)} |
| base model | ${formatBase(facts)} |
| trained | ${formatTrained(facts, kind)} |
| chat format | ${facts.chatFormat === null ? 'not known' : markdownText(facts.chatFormat)} |

## Scores

${scores(facts)}

## Training

${training(facts)}

## Data and licences

${data(facts)}

This model: ${license === null ? 'its licence is unknown, because none was named when it was published. That is no permission to use it' : markdownText(license)}. Licence of the base model: ${(facts.base?.origin ?? facts.origin) === null ? 'unknown' : 'as its page on the hub says'}.

## Serve it

${serve(input)}

## Limits

- The scores hold for the scaffold, the limits and the tasks above. Other prompts, other tools or another chat format give other scores.
- It writes shell commands. Run them only in a sandbox without secrets.
- Its task is to repair repositories until hidden tests pass, and it may look for other ways to that end. An official score counts every
  resolved task; the audited one leaves out those that an audit or a sign of a hack speaks against.
- ${formatCutoff(recipe?.cutoff ?? null)}

## Files

| file | SHA-256 |
|---|---|
${files.map(({ path, sha256 }) => `| ${markdownText(path)} | ${sha256} |`).join('\n')}
${kind === 'adapter' ? '' : `\n\`longhaul models import ${repository} --revision COMMIT --output DIRECTORY\` makes a policy of it again.\n`}`
}

function formatCutoff(cutoff: string | null): string {
  return cutoff === null
    ? 'The end of the base model’s training data is not known, so tasks may have been in it.'
    : `The base model’s training data ends ${markdownText(cutoff)}; older tasks may have been in it.`
}

function formatBase({ base, origin, recipe, policy }: ModelFacts): string {
  const from = base?.origin ?? origin
  const named = from === null ? null : `${markdownText(from.model)} at ${markdownText(from.revision)}`
  if (policy.globalStep === 0) return named ?? 'not recorded where it comes from'
  if (base === null) return recipe === null ? 'not known' : markdownText(recipe.base)
  return `${named ?? `${markdownText(recipe?.base ?? 'a directory')}, not recorded where it comes from`}; as policy ${markdownText(base.version)}, SHA-256 of the manifest ${markdownText(base.manifestSha256)}`
}

function formatTrained({ recipe, policy }: ModelFacts, kind: ModelCardInput['kind']): string {
  if (policy.globalStep === 0) return 'not by this project'
  if (recipe === null) return 'not known'
  return recipe.lora === null
    ? 'all weights'
    : `adapters (LoRA) of rank ${recipe.lora.rank}, alpha ${recipe.lora.alpha}, ${kind === 'adapter' ? 'which are all that is here' : 'merged into these weights'}`
}

function scores({ evaluations }: ModelFacts): string {
  if (evaluations.length === 0) return 'No evaluation of this policy is stored.'
  const rows = evaluations.map(({ record, origin }) => {
    const { official, audited, attempts } = record
    return `| ${markdownText(`${record.run}: ${record.name}`)} | ${markdownText(origin?.dataset ?? 'unknown')} | ${official.tasks} | ${attempts} | ${showScore(official)} | ${audited === undefined ? 'not audited' : showScore(audited)} | ${formatConditions(record)} |`
  })
  const suites = new Map(evaluations.map(({ record, origin }) => [record.suite, origin]))
  return `pass@1 with its 95 % interval. *Official* counts as the harnesses of the data sets do, lost attempts as unresolved; *audited* counts an
attempt only if no audit and no sign of a hack speaks against it.

| evaluation | data set | tasks | attempts at each | official | audited | conditions |
|---|---|---|---|---|---|---|
${rows.join('\n')}

| suite, SHA-256 | data set | revision | split |
|---|---|---|---|
${[...suites].map(([suite, origin]) => suiteRow(suite, origin)).join('\n')}`
}

function showScore({ passAt1, interval, tasks }: Score): string {
  if (tasks === 0) return 'no task'
  const bounds = interval === null ? 'no interval' : `${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`
  return `${passAt1.toFixed(3)} (${bounds}; n = ${tasks})`
}

function formatConditions({ conditions }: EvaluationRecord): string {
  if (conditions === null) return 'not stored'
  const { scaffold, demonstration, limits, gradingProfiles } = conditions
  return markdownText(
    `scaffold ${scaffold}${demonstration ? ' with a demonstration' : ''}, ${limits.maxTurns} turns, ${limits.contextTokens} tokens, graded as ${gradingProfiles.join(' and ')}`,
  )
}

function suiteRow(suite: string, origin: SuiteOrigin | null): string {
  const cells = [suite, origin?.dataset ?? 'unknown', origin?.revision ?? 'unknown', origin?.split ?? 'none']
  return `| ${cells.map((cell) => markdownText(cell)).join(' | ')} |`
}

function training({ training, policy }: ModelFacts): string {
  if (policy.globalStep === 0) return 'None.'
  if (training.length === 0) return 'Its records are not stored any more.'
  return `| stage | training jobs | optimizer steps |
|---|---|---|
${training.map(({ stage, jobs, steps }) => `| ${markdownText(stage)} | ${jobs} | ${steps} |`).join('\n')}`
}

function data({ suites, licenses, policy }: ModelFacts): string {
  if (policy.globalStep === 0) return 'This project trained it on no data.'
  if (suites.length === 0) return 'What it was trained on is unknown: the records of its run are not stored any more.'
  const rows = suites.map(
    ({ suite, origin, tasks, uses }) =>
      `${suiteRow(suite, origin)} ${tasks} | ${markdownText(uses.join(', '))} | ${filtersOf(origin)} |`,
  )
  return `| suite, SHA-256 | data set | revision | split | tasks | stages | filters |
|---|---|---|---|---|---|---|
${rows.join('\n')}

Licences of the repositories whose tasks were played for training: ${licenses.length === 0 ? 'unknown' : licenses.map(({ name, tasks }) => `${name === null ? 'unknown' : markdownText(name)} (${tasks} ${tasks === 1 ? 'task' : 'tasks'})`).join(', ')}.`
}

function filtersOf(origin: SuiteOrigin | null): string {
  const filters = origin?.filters ?? []
  return filters.length === 0 ? 'none' : markdownText(filters.map(({ filter }) => filter).join('; '))
}

function serve(input: ModelCardInput): string {
  return input.kind === 'adapter' ? loadAdapter(input) : serveWhole(input)
}

function loadAdapter({ facts, repository, branch }: ModelCardInput): string {
  const base = facts.base?.origin ?? null
  return `In Python, with \`peft\`:

    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained("${base?.model ?? ''}", revision="${base?.revision ?? ''}")
    model = PeftModel.from_pretrained(base, "${repository}", revision="${branch}").merge_and_unload()

The scores are those of the policy whose weights have these adapters merged in fp32 and were rounded to the type of its export; merged in
another type the logits differ by that rounding.`
}

function serveWhole({ repository, branch, serve }: ModelCardInput): string {
  const directory = repository.split('/').at(-1) ?? repository
  const revision = branch === 'main' ? '' : ` --revision ${branch}`
  const fetched = `    hf download ${repository}${revision} --local-dir ${directory}`
  if (serve.length === 0)
    return `${fetched}\n\nThen \`longhaul policy-server command ${directory}\` prints a start command.`
  return `${fetched}
${serve.map(({ engine, command }) => `\n${engine}:\n\n    ${command}\n`).join('')}
These are the commands of \`longhaul policy-server command\`: the model's own decoding settings stay out, and the server says which policy answers.`
}
