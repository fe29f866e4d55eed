/**
 * Measures a base policy on held-out tasks: real sandboxes, tools and grading.
 *
 *   node policies/demo-base/evaluate.ts --model DIR --python PYTHON [--tasks 128] [--offset 0] [--cache DIR] [--card FILE --name NAME]
 *
 * Prints one JSON object and, with --card, notes it there under NAME. Patches equal to the gold patch count as resolved and empty ones do not, as the gate found; all
 * others are graded in a fresh container.
 */
import { parseArgs } from 'node:util'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { normalizeRow } from '../../src/adapters/datasets/normalize-row.ts'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import type { SynthesizedTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { createPolicyClient } from '../../src/adapters/policy-server/client.ts'
import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { classify } from './classify.ts'
import type { Ending } from './classify.ts'
import { gradePatch } from './grade.ts'
import { openLanes } from './lanes.ts'
import { play } from './play.ts'
import { startPolicyServer } from './policy-server.ts'

/** Evaluation tasks of no recipe. */
const SEED = 7_002
const LANES = 8

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    tasks: { type: 'string', default: '128' },
    offset: { type: 'string', default: '0' },
    cache: { type: 'string', default: '.cache/images' },
    card: { type: 'string' },
    name: { type: 'string', default: 'base' },
    verbose: { type: 'boolean', default: false },
  },
})
if (values.model === undefined) throw new Error('Expected --model DIRECTORY')

const model = resolve(values.model)
const count = Number(values.tasks)
const profile = scaffoldProfile('demo')
const signal = AbortSignal.timeout(60 * 60_000)
const log = (line: string): void => console.error(line)
const tasks = synthesizeSuite({ seed: SEED, split: 'eval', count, offset: Number(values.offset) })
const manifestSha256 = createHash('sha256')
  .update(await readFile(join(model, 'MANIFEST.json')))
  .digest('hex')
const version = `v000000-${manifestSha256.slice(0, 8)}`

const server = await startPolicyServer({ python: values.python, log })
const lanes = await openLanes({ count: LANES, profile, cacheDir: resolve(values.cache), log, signal })
const client = createPolicyClient({ kind: 'embedded', url: server.url })
try {
  const policy = {
    version,
    uri: pathToFileURL(model).href,
    manifestSha256,
    globalStep: 0,
    checkpointUri: null,
    checkpointSha256: null,
  }
  await client.load({ policy, holder: 'evaluate', leaseMs: 60 * 60_000 }, signal)
  const stopTokenIds = await client.tokenize({ policy: version, text: '<|im_end|>' }, signal)
  const outcomes: Outcome[] = []
  let next = 0
  const work = async (lane: SandboxHandle): Promise<void> => {
    for (let task = tasks[next++]; task !== undefined; task = tasks[next++]) {
      outcomes.push(await playAndGrade(lane, task, stopTokenIds))
    }
  }
  await Promise.all(lanes.sandboxes.map(work))
  const summary = summarize(outcomes)
  console.log(JSON.stringify(summary, null, 1))
  if (values.card !== undefined) await noteInCard(values.card, values.name, summary)
} finally {
  await lanes.close()
  await server.stop()
}

interface Outcome {
  level: number
  ending: Ending
  turns: number
  formatErrors: number
  tokens: number
}

async function playAndGrade(lane: SandboxHandle, task: SynthesizedTask, stopTokenIds: number[]): Promise<Outcome> {
  const { row, composed, repoTar } = task
  const { host } = lanes
  const sandbox = await lanes.load(lane, await repoTar(), signal)
  const seed = createHash('sha256').update(`evaluate/${row.instance_id}`).digest().readUInt32LE() % 2 ** 30
  const episode = await play({ host, sandbox, client, policy: version, profile, task, stopTokenIds, seed, signal })
  const patch = episode.submitted ? Buffer.from(episode.patch).toString('utf8') : ''
  const resolved = await gradePatch({ lanes, task, normalized: normalizeRow(row), patch, signal })
  const ending = classify({ task: composed, patch, submitted: episode.submitted, resolved })
  if (values.verbose && ending !== 'resolved') log(`=== ${row.instance_id} ${ending}\n${episode.text}\n${patch}`)
  return {
    level: composed.level,
    ending,
    turns: episode.turns,
    formatErrors: episode.formatErrors,
    tokens: episode.tokens,
  }
}

async function noteInCard(path: string, name: string, summary: object): Promise<void> {
  const card = JSON.parse(await readFile(path, 'utf8')) as { evaluations?: object }
  const evaluations = { ...card.evaluations, [name]: { seed: SEED, offset: Number(values.offset), ...summary } }
  await writeFile(path, `${JSON.stringify({ ...card, evaluations }, null, 1)}\n`)
}

function summarize(outcomes: Outcome[]): object {
  const rate = (some: Outcome[]): number => mean(some.map(({ ending }) => (ending === 'resolved' ? 1 : 0)))
  const passAt1 = rate(outcomes)
  const endings: Partial<Record<Ending, number>> = {}
  for (const { ending } of outcomes) endings[ending] = (endings[ending] ?? 0) + 1
  const byLevel = [1, 2, 3].map((level) => rate(outcomes.filter((outcome) => outcome.level === level)))
  return {
    policy: version,
    tasks: outcomes.length,
    passAt1: round(passAt1),
    sem: round(Math.sqrt((passAt1 * (1 - passAt1)) / outcomes.length)),
    byLevel: byLevel.map(round),
    endings,
    meanTurns: round(mean(outcomes.map(({ turns }) => turns))),
    formatErrorTurns: round(mean(outcomes.map(({ formatErrors }) => formatErrors))),
    meanTokens: Math.round(mean(outcomes.map(({ tokens }) => tokens))),
  }
}

function mean(numbers: number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length)
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
