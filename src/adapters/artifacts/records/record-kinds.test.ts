import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import * as keys from '../../../contracts/keys.ts'
import { RECORD_EXAMPLES } from '../../../../test/support/record-examples.ts'
import { RECORD_KINDS, kindOf, misfitOf, openRecord, sealRecord } from '../store-rules.ts'

type Path = readonly (string | number)[]

/** Every field of a value, from the outside in; of a list, those of each entry. */
function pathsOf(value: unknown, at: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return []
  const entries: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return entries.flatMap(([key, inner]) => [[...at, key], ...pathsOf(inner, [...at, key])])
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce((inner, key) => (inner as Record<string | number, unknown>)[key], value)
}

/** A copy with another value at a path; without the field for `undefined`. */
function changed(record: object, path: Path, value: unknown): object {
  // By JSON: a structured clone keeps objects that stand in two places one object.
  const copy = JSON.parse(JSON.stringify(record)) as object
  const parent = valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown>
  const last = path.at(-1) ?? ''
  if (value === undefined) delete parent[last]
  else parent[last] = value
  return copy
}

const nameOf = (path: Path): string =>
  path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`))
    .join('')
    .slice(1)

/** Values of other types than the one that stands in the example. */
function otherTypes(value: unknown): unknown[] {
  const others = ['text', 7, true, ['text'], { text: 'text' }]
  const sortOf = (one: unknown): string => (Array.isArray(one) ? 'list' : typeof one)
  return others.filter((other) => value === null || sortOf(other) !== sortOf(value))
}

/** Fields that accept several types, or any: a union in a recipe, and content that is not of this program. */
const OPEN_FIELDS = [/^steps\[\d+\]\./, /^row\b/, /^recipe\.reinforce\.(?:filter\.refill|loss\.kl|stages\[0\]\.batch)$/]

test('each kind of record has an example, which fits with and without the fields that a record may lack', () => {
  for (const kind of RECORD_KINDS) {
    const examples = RECORD_EXAMPLES.filter(({ key }) => kindOf(key) === kind)
    assert.equal(examples.length, 1, `${kind.name}: ${kind.example}`)
    for (const { record, more } of examples) {
      assert.equal(misfitOf(kind, record), null)
      assert.equal(misfitOf(kind, { ...record, ...more }), null)
      assert.equal(misfitOf(kind, { ...record, addedByALaterVersion: 1 }), null)
    }
  }
})

test('a resealed record with a field of another type is refused with its key, the field and what it should be', () => {
  let forged = 0
  for (const { key, record, more } of RECORD_EXAMPLES) {
    const whole = { ...record, ...more }
    for (const path of pathsOf(whole)) {
      const name = nameOf(path)
      if (OPEN_FIELDS.some((field) => field.test(name))) continue
      const value = valueAt(whole, path)
      // The type behind a null is not known here: no object stands for one of a text, a number or a list.
      for (const other of value === null ? [[{}]] : otherTypes(value)) {
        forged += 1
        assert.throws(
          () => openRecord(key, sealRecord(changed(whole, path, other))),
          (error: Error & { code?: string }) =>
            error.code === 'Artifact.Corrupt' &&
            error.message.includes(`key=${key}`) &&
            error.message.includes(`its field ${name}`),
          `${key}: ${name} = ${JSON.stringify(other)}`,
        )
      }
    }
  }
  assert.ok(forged > 2_000, String(forged))
})

/** Required fields that records of earlier versions do not have, by kind. Each reader of them has a rule for their absence. */
const LATER_FIELDS: Readonly<Record<string, RegExp>> = {
  'episode’s result': /^signs$/,
  task: /^createdAt$/,
  recipe:
    /^recipe\.(?:grading|promotion|trackers|model\.(?:chatFormat|train|lora|cutoff|rope)|data\.(?:overlap|gate\.width)|sandbox\.(?:allow|runtime|limit\.diskGiB)|(?:rft|reinforce)\.optim\.states|reinforce\.(?:loss\.sequenceMask|reward\.contextPenalty|stages\[0\]\.clip)|evaluate\.(?:modelSampling|limits|quick|compare|prices)|policyServer\.(?:replicas|launch|publish|patienceS|chat)|trainer\.(?:recompute|offload|docker|slurm|kubernetes|alarms\..*))$/,
}

/** Fields of objects whose keys are data, and optional fields of nested objects. */
const DATA_KEYS =
  /^(?:steps\[\d+\]|row|totals\.(?:dropped|excluded)|dispositions|verdicts|reasons|durations|profiles|digests|notPassed|exceptions|audits|(?:gates\[0\]\.)?flips\[0\]\.statuses)\.|^totals\.(?:unpaid|promptTokens|cachedTokens)$|^entries\[\d\]\.unpaid$|^execution\.network$|^score\.audited$|^tasks\[0\]\.(?:replaced|audited|promptTokens|cachedTokens|cost)$|^harness\.assets(?:\[0\]\.sha256)?$/

test('a resealed record without a required field is refused, and one of an earlier version without a later field opens', () => {
  for (const { key, record } of RECORD_EXAMPLES) {
    const later = LATER_FIELDS[kindOf(key)?.name ?? '']
    for (const path of pathsOf(record)) {
      const name = nameOf(path)
      if (typeof path.at(-1) === 'number' || DATA_KEYS.test(name)) continue
      const open = (): object => openRecord(key, sealRecord(changed(record, path, undefined)))
      if (later?.test(name) === true) assert.doesNotThrow(open, `${key}: ${name}`)
      else assert.throws(open, { code: 'Artifact.Corrupt' }, `${key}: ${name}`)
    }
  }
})

test('numbers that no writer stores are refused: infinite, negative and broken counts, shares over 1, times beyond dates', () => {
  const forged: [end: string, from: string, to: string, field: string][] = [
    ['/result.json', '"turns":1', '"turns":1e999', 'turns'],
    ['/result.json', '"turns":1', '"turns":-1', 'turns'],
    ['/result.json', '"turns":1', '"turns":0.5', 'turns'],
    ['/result.json', '"formatErrorTurns":0', '"formatErrorTurns":2', 'formatErrorTurns'],
    ['0000.action.json', '"sampledAtMs":', '"sampledAtMs":99999', 'sampledAtMs'],
    ['0000.action.json', '"logprobs":[-0.5,-1]', '"logprobs":[-0.5]', 'logprobs'],
    ['0000.action.json', '"ids":[3,4]', '"ids":[3,-4]', 'ids[1]'],
    ['0000.action.json', '"ids":[3,4]', '"ids":[3,4e15]', 'ids[1]'],
    ['0000.observation.json', '"exitCode":0', '"exitCode":9e15', 'execution.exitCode'],
    ['evaluations/base.json', '"passAt1":0.5', '"passAt1":1.5', 'score.passAt1'],
    ['evaluations/base.json', '"turns":[2]', '"turns":[]', 'tasks[0].turns'],
    ['01/verdict.json', '"passed":1', '"passed":3', 'failToPass.passed'],
  ]
  for (const [end, from, to, field] of forged) {
    const found = RECORD_EXAMPLES.find(({ key }) => key.endsWith(end) || key.endsWith(end.replace('01/', '00/')))
    assert.ok(found, end)
    const text = JSON.stringify(found.record)
    assert.ok(text.includes(from), from)
    // Written as text, because no number of this language is written as one beyond the range of doubles.
    const record = JSON.parse(text.replace(from, to)) as object
    const kind = kindOf(found.key)
    assert.ok(kind)
    assert.match(
      String(misfitOf(kind, record)),
      new RegExp(`^its field ${field.replaceAll(/[[\]]/g, String.raw`\$&`)} `),
      to,
    )
  }
})

test('an evaluation of version 1 opens with what it is derived again from, and nothing less', () => {
  const key = keys.runKeys.evaluation('run', 'base')
  const record = { schema: 'longhaul.evaluation/1', run: 'run', name: 'base', stage: 'eval-base' }
  assert.deepEqual(openRecord(key, sealRecord(record)), record)
  assert.throws(() => openRecord(key, sealRecord({ ...record, stage: null })), { code: 'Artifact.Corrupt' })
})

/** Keys of files without a seal. */
const FILES = new Set(['report'])

test('every key of a record has a kind', () => {
  /** Stands for every argument of every function of keys: a text, a number, or an object of them. */
  const any: never = new Proxy(() => undefined, {
    get: (_, name): unknown => (name === Symbol.toPrimitive ? () => '1' : any),
    apply: () => any,
  }) as never
  const unknown: string[] = []
  for (const [group, spellings] of Object.entries(keys)) {
    if (typeof spellings !== 'object') continue
    for (const [name, spell] of Object.entries<unknown>(spellings)) {
      const key: unknown =
        typeof spell === 'function' ? (spell as (...of: never[]) => unknown)(any, any, any, any) : spell
      if (typeof key !== 'string' || !key.endsWith('.json') || FILES.has(name)) continue
      if (kindOf(key.replace('episodes/1/', 'episodes/1/1/1/1/1/')) === null) unknown.push(`${group}.${name}: ${key}`)
    }
  }
  assert.deepEqual(unknown, [])
})

/** Schemas of files that have no seal and are read by checks of their own, or by no reader of this program. */
const NO_RECORDS: Readonly<Record<string, string>> = {
  batch: 'read by the trainer, which checks it',
  config: 'read by the trainer, which checks it',
  episodes: 'the metadata of an exported table',
  export: 'the summary of an exported folder',
  'job-owner': 'a note of trainer workers, beside the jobs',
  import: 'in a policy’s directory, below its manifest',
  manifest: 'of a policy’s directory, checked on import',
  published: 'written to a hub',
  report: 'the JSON report, for programs of others',
  step: 'read by the trainer, which checks it',
  wandb: 'a mark in a tracker’s directory',
  window: 'read by the trainer, which checks it',
}

test('every schema that the sources write is that of a kind, or of a file that is no record', () => {
  const words = execFileSync(
    'grep',
    ['-rhoE', "'longhaul\\.[a-z-]+/[0-9]+'", '--include=*.ts', '--exclude=*.test.ts', '.'],
    { cwd: join(import.meta.dirname, '../../..'), encoding: 'utf8' },
  )
  const withSchema = RECORD_KINDS.filter((kind) => (misfitOf(kind, {}) ?? '').startsWith('its field schema '))
  const isOfKind = (schema: string): boolean =>
    withSchema.some((kind) => !(misfitOf(kind, { schema }) ?? '').startsWith('its field schema '))
  const unknown = new Set<string>()
  for (const word of words.split('\n').filter((one) => one !== '')) {
    const [, schema = '', name = ''] = /'(longhaul\.([a-z-]+)\/\d+)'/.exec(word) ?? []
    if (!isOfKind(schema) && !Object.hasOwn(NO_RECORDS, name)) unknown.add(schema)
  }
  assert.deepEqual([...unknown], [])
})
