/**
 * `docs/timeouts.md` says of every limit what it is, and no limit contradicts another: what is inside of an activity ends before the
 * activity does. The tables are compared with the code, so neither can change alone.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { TEST_TIMEOUT_MS } from '../../src/activities/grading/run-grading.ts'
import { limitOfRequest } from '../../src/adapters/docker/engine/engine.ts'
import { GRADING_SLACK_MS } from '../../src/adapters/docker/grader/grading.ts'
import { LOCK_TIMEOUT_MS } from '../../src/adapters/docker/images/image-keeper.ts'
import { MOST_S } from '../../src/adapters/recipes/combination.ts'
import { QUEUE_MS } from '../../src/adapters/trainer-job/job/follow-attempt.ts'
import { LONGEST_STEP_SILENCE_S, stepHeartbeatSeconds } from '../../src/contracts/step-heartbeat.ts'
import * as presets from '../../src/workflows/activity-presets.ts'
import { readWorkerEnvironment } from '../../src/workers/worker-environment.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/timeouts.md'), 'utf8')

interface Preset {
  scheduleToStartTimeout: string
  startToCloseTimeout: string
  scheduleToCloseTimeout?: string
  heartbeatTimeout: string
  retry: {
    maximumAttempts: number
    initialInterval: string
    maximumInterval: string
    nonRetryableErrorTypes?: readonly string[]
  }
}

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, days: 86_400_000 }

/** Of `20s`, `7 days`. */
function ms(duration: string): number {
  const [, count = '', unit = ''] = /^(\d+) ?([a-z]+)$/.exec(duration) ?? []
  return Number(count) * (UNITS[unit] ?? Number.NaN)
}

/** Cells of every row whose first cell begins with a name in backticks. */
function rowsOf(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

function problemsOfPresets(text: string, all: Record<string, Preset>): string[] {
  const rows = new Map(
    rowsOf(text)
      .filter(([name]) => /^`[A-Z_]+`$/.test(name ?? ''))
      .map(([name, ...cells]) => [name?.replaceAll('`', '') ?? '', cells]),
  )
  const unknown = [...rows.keys()].filter((name) => !Object.hasOwn(all, name)).map((name) => `no such preset: ${name}`)
  return Object.entries(all)
    .flatMap(([name, preset]) => {
      const cells = rows.get(name)
      if (cells === undefined) return [`no row: ${name}`]
      const { retry } = preset
      const isOnce = retry.nonRetryableErrorTypes?.includes('TemporalTimeout:StartToClose') === true
      const expected = [
        preset.scheduleToStartTimeout,
        `${preset.startToCloseTimeout}${isOnce ? ' ¹' : ''}`,
        preset.scheduleToCloseTimeout ?? '–',
        preset.heartbeatTimeout,
        String(retry.maximumAttempts),
        `${retry.initialInterval}–${retry.maximumInterval}`,
      ]
      const [who = '', then = ''] = cells.slice(6)
      const says = cells.slice(0, 6).join(' | ')
      return [
        ...(says === expected.join(' | ') ? [] : [`${name}: says ${says}, is ${expected.join(' | ')}`]),
        ...(who === '' || then === '' ? [`${name}: who waits, and what ends it?`] : []),
      ]
    })
    .concat(unknown)
}

/** Names of times in the code of what runs inside of activities. Values are written as products of numbers. */
const CONSTANT = /^(?:export )?const ([A-Z][A-Z_]*_MS) = ([^\n]+)$/gm
const FOLDERS = ['activities', 'adapters', 'platform', 'workers', 'domain']
/** Units, no waits. */
const NO_WAITS = new Set(['domain/statistics/run-costs.ts HOUR_MS'])

function constantsOf(folders: readonly string[]): Map<string, number> {
  const found = new Map<string, number>()
  const texts = folders.flatMap((folder) =>
    readdirSync(join(root, 'src', folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
      .map((name) => ({ file: `${folder}/${name}`, text: readFileSync(join(root, 'src', folder, name), 'utf8') })),
  )
  const named = new Map<string, number>()
  for (const round of ['numbers', 'sums'] as const) {
    for (const { file, text } of texts) {
      for (const [, name = '', expression = ''] of text.matchAll(CONSTANT)) {
        if (NO_WAITS.has(`${file} ${name}`)) continue
        const isSum = /[A-Z]/.test(expression)
        if (isSum !== (round === 'sums')) continue
        const value = valueOf(expression.replaceAll(/[A-Z][A-Z_]+/g, (other) => String(named.get(other))))
        assert.ok(Number.isFinite(value), `${file}: ${name} = ${expression} is no number that this test can read`)
        named.set(name, value)
        found.set(`${file} ${name}`, value)
      }
    }
  }
  return found
}

/** Products and sums of whole numbers. */
function valueOf(expression: string): number {
  const product = (text: string): number =>
    text
      .split('*')
      .map((factor) => Number(factor.trim().replaceAll('_', '')))
      .reduce((all, factor) => all * factor, 1)
  return expression
    .split('+')
    .map(product)
    .reduce((all, term) => all + term, 0)
}

function problemsOfConstants(text: string, constants: ReadonlyMap<string, number>): string[] {
  const rows = new Map<string, string[]>()
  for (const [first = '', ...cells] of rowsOf(text)) {
    const match = /^`([a-z0-9/.-]+\.ts)` `([A-Z_]+)`$/.exec(first)
    if (match !== null) rows.set(`${match[1]} ${match[2]}`, cells)
  }
  const unknown = [...rows.keys()].filter((name) => !constants.has(name)).map((name) => `no such constant: ${name}`)
  return [...constants]
    .flatMap(([name, value]) => {
      const [says = '', what = '', then = ''] = rows.get(name) ?? []
      if (!rows.has(name)) return [`no row: ${name}`]
      if (what === '' || then === '') return [`${name}: what waits, and what then?`]
      return ms(says) === value ? [] : [`${name}: says ${says}, is ${value} ms`]
    })
    .concat(unknown)
}

test('every preset has its row in docs/timeouts.md, with its own values', () => {
  assert.deepEqual(problemsOfPresets(page, presets), [])
})

test('every deadline inside of an activity has its row, with its own value', () => {
  const constants = constantsOf(FOLDERS)
  assert.ok(constants.size > 40, 'found hardly any constant: the search is broken')
  assert.deepEqual(problemsOfConstants(page, constants), [])
})

test('the comparison finds a preset without a row, another value, and a row without a preset', () => {
  const without = page.replace(/^\| `GRADING` .*\n/m, '')
  assert.deepEqual(problemsOfPresets(without, presets), ['no row: GRADING'])
  const other = { ...presets, GRADING: { ...presets.GRADING, startToCloseTimeout: '35m' } }
  assert.match(problemsOfPresets(page, other).join(), /GRADING: says 7 days \| 18h ¹.*is 7 days \| 35m ¹/)
  const { CLOSING: _, ...fewer } = presets
  assert.deepEqual(problemsOfPresets(page, fewer), ['no such preset: CLOSING'])
  assert.deepEqual(problemsOfConstants(page, new Map([...constantsOf(FOLDERS), ['x/y.ts NEW_MS', 1]])), [
    'no row: x/y.ts NEW_MS',
  ])
})

test('two minutes of network silence fail no activity that any worker may take', () => {
  const anywhere = { ...presets, HOST: null, ATTENDANCE: null, CLOSING: null, ALARMS: null }
  for (const [name, preset] of Object.entries(anywhere)) {
    if (preset === null) continue
    const { initialInterval, maximumInterval, maximumAttempts } = preset.retry
    // All attempts but the last one go to connections that are dead; the server notices each by its missing heartbeats.
    let silentMs = 0
    for (let lost = 0; lost < maximumAttempts - 1 && silentMs < 120_000; lost += 1) {
      silentMs += ms(preset.heartbeatTimeout) + Math.min(ms(initialInterval) * 2 ** lost, ms(maximumInterval))
    }
    assert.ok(silentMs >= 120_000, `${name}: ${silentMs / 1000} s`)
  }
})

const imageMs = LOCK_TIMEOUT_MS + (limitOfRequest({ path: '/images/create' }) ?? 0)
const requestMs = limitOfRequest({ path: '/containers/create' }) ?? 0

test('one placement attempt covers pulling an image and opening a sandbox in it', () => {
  assert.ok(ms(presets.PLACEMENT.startToCloseTimeout) > imageMs + 10 * requestMs)
})

test('one attempt covers a grading that waits for its slot and runs twice, and a gate that starts one at its end', () => {
  // Of the 24 activities that a host accepts 23 may be before it, four at once.
  const auditMs =
    TEST_TIMEOUT_MS + (constantsOf(FOLDERS).get('adapters/docker/grader/audit-patch.ts AUDIT_SLACK_MS') ?? Number.NaN)
  const oneRunMs = auditMs + TEST_TIMEOUT_MS + GRADING_SLACK_MS + requestMs
  const waitedMs = Math.ceil(23 / 4) * oneRunMs
  const wholeMs = imageMs + 2 * (waitedMs + oneRunMs)
  assert.ok(ms(presets.GRADING.startToCloseTimeout) > wholeMs, `${wholeMs / 60_000} minutes`)
  assert.ok(ms(presets.GATING.startToCloseTimeout) > wholeMs + 10 * 60_000)
})

test('one attempt on the host covers the longest replay, the turns of a step and the longest last turn', () => {
  const constants = constantsOf(FOLDERS)
  const at = (name: string): number => constants.get(name) ?? Number.NaN
  // A pool asks its servers for so long, then the last of them is away for one attempt's patience and answers one request.
  const askMs =
    at('adapters/policy-server/pool.ts LAST_SERVER_AFTER_MS') +
    at('activities/runtime/policy-clients.ts LONGEST_ATTEMPT_MS') +
    600_000
  const turnMs = 2 * askMs + MOST_S.command * 1000 + at('adapters/docker/sandbox/runner-pool.ts OUTER_SLACK_MS')
  const wholeMs = MOST_S.episode * 1000 + at('activities/episode/advance-episode.ts STEP_BUDGET_MS') + turnMs
  assert.ok(ms(presets.HOST.startToCloseTimeout) > wholeMs, `${wholeMs / 60_000} minutes`)
})

test('one attempt covers a job’s wait for nodes and the longest run that a recipe may ask for', () => {
  assert.ok(ms(presets.TRAINING.startToCloseTimeout) > QUEUE_MS + MOST_S.trainingJob * 1000)
})

test('attempts and back-off cover two weeks of waiting for an operator of the policy server', () => {
  const { maximumAttempts, maximumInterval } = presets.PUBLISHING.retry
  const allMs = ms(presets.PUBLISHING.scheduleToCloseTimeout)
  assert.ok(maximumAttempts * ms(maximumInterval) > allMs)
  assert.ok(
    allMs > ms(presets.PUBLISHING.scheduleToStartTimeout),
    'a missing worker must be reported before a missing person',
  )
})

test('a lease is longer than the time between two heartbeats of a sandbox', () => {
  const { leaseMs } = readWorkerEnvironment({ LONGHAUL_ARTIFACTS: '/a', LONGHAUL_CACHE: '/c' })
  const { scheduleToStartTimeout, heartbeatTimeout, retry } = presets.HOST
  // The first number of episodes with a timeout of its own has the next longer one.
  assert.equal(ms(heartbeatTimeout), ((stepHeartbeatSeconds(350) ?? 0) - 1) * 1_000)
  const silenceMs = LONGEST_STEP_SILENCE_S * 1_000
  const betweenMs = ms(scheduleToStartTimeout) + silenceMs + ms(retry.maximumInterval)
  assert.ok(leaseMs > leaseMs / 3 + betweenMs, `${leaseMs} ms`)
})
