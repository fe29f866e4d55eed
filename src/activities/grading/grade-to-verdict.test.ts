/** Tests that never end: how often they run, and what the episode's verdict is. The container is scripted, all else is real. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { GRADED_ON, loadGradedTask } from '../../../test/support/graded-task.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { readLog } from '../../adapters/artifacts/stored-log.ts'
import type { GradingTimeOutRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import { exclusionOf } from '../../domain/ledger/episode-fates.ts'
import { gradeToVerdict } from './grade-to-verdict.ts'
import { runGrading } from './run-grading.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-verdict-'))
const store = createDirectoryStore({ root })
const never = new AbortController().signal
const task = await loadGradedTask()
after(() => rmSync(root, { recursive: true }))

type Ending = 'never-ends' | 'no-results' | 'does-not-apply' | 'no-text' | LonghaulError

/** A host whose containers end as told, one after another. */
function hostOf(endings: Ending[]): { sandbox: SandboxHost; runs: () => number } {
  let runs = 0
  const grade = async (): Promise<GradeRunResult> => {
    const ending = endings[runs++]
    if (ending === undefined) throw new Error('ran once more than the script has')
    if (ending instanceof LonghaulError) throw ending
    const facts = { log: Buffer.from(`run ${runs}`), ...GRADED_ON, wallMs: 1_800_000 }
    if (ending === 'never-ends') return { kind: 'timed-out', ...facts }
    if (ending === 'does-not-apply') return { kind: 'patch-did-not-apply', exitCode: 1, ...facts }
    const log = ending === 'no-text' ? Buffer.from([0xff, 0xfe]) : facts.log
    return { kind: 'ran', exitCode: 0, ...facts, log }
  }
  return { sandbox: { grade } as unknown as SandboxHost, runs: () => runs }
}

function attemptOf(name: string, endings: Ending[]) {
  const { sandbox, runs } = hostOf(endings)
  const keyOf = (file: string): string => `gradings/${name}/${file}`
  const attempt = (number: number, isLastAttempt = number === 5) =>
    gradeToVerdict(
      { store, sandbox, ensureImage: async () => undefined },
      {
        run: 'r',
        episode: `r/${name}`,
        owner: 'o',
        role: 'grader',
        limits: { cpus: 1, memoryMiB: 1, pids: 1 },
        patch: Buffer.from('patch'),
        task,
        keyOf,
        hostId: `host-${number}`,
        attempt: number,
        isLastAttempt,
      },
      never,
    )
  return { attempt, keyOf, runs }
}

test('tests that never end run twice on any hosts and then give the verdict unresolved', async () => {
  const { attempt, keyOf, runs } = attemptOf('endless', ['never-ends', 'never-ends'])
  await assert.rejects(attempt(1), (error) => {
    assert.ok(error instanceof LonghaulError)
    assert.deepEqual([error.code, error.retryable], ['Grading.Failed', true])
    assert.match(error.message, /not finished after 1800 s/)
    return true
  })
  const { kind, reason } = await attempt(2)
  assert.deepEqual([kind, reason, runs()], ['unresolved', 'tests-timed-out', 2])
  assert.equal(exclusionOf({ disposition: 'submitted', verdict: kind } as never), null)
  assert.equal((await store.readRecord<GradingTimeOutRecord>(keyOf('timed-out.json')))?.hostId, 'host-1')
  // Each log is the log of its own run.
  const log = async (file: string) => Buffer.from((await readLog(store, keyOf(file))) ?? '').toString()
  assert.match(await log('timed-out.txt'), /^run 1/)
  assert.match(await log('test_output.txt'), /^run 2/)
})

test('infrastructure failures in between cost attempts but no third run of the tests', async () => {
  const lost = new LonghaulError({ code: 'Sandbox.EngineUnavailable', message: 'gone' })
  const { attempt, runs } = attemptOf('between', [lost, 'never-ends', lost, 'never-ends'])
  await assert.rejects(attempt(1), { code: 'Sandbox.EngineUnavailable' })
  await assert.rejects(attempt(2), { code: 'Grading.Failed' })
  await assert.rejects(attempt(3), { code: 'Sandbox.EngineUnavailable' })
  const { kind, reason } = await attempt(4)
  assert.deepEqual([kind, reason, runs()], ['unresolved', 'tests-timed-out', 4])
})

test('a restarted run remembers the first endless run although its attempts count from one', async () => {
  const { attempt } = attemptOf('again', ['never-ends', 'never-ends'])
  await assert.rejects(attempt(1), { code: 'Grading.Failed' })
  assert.equal((await attempt(1)).kind, 'unresolved')
})

test('the own result counts when the tests end the second time', async () => {
  const { attempt, keyOf, runs } = attemptOf('slow', ['never-ends', 'no-results', 'no-results'])
  await assert.rejects(attempt(1), { code: 'Grading.Failed' })
  const { kind, reason } = await attempt(2)
  assert.deepEqual([kind, reason, runs()], ['unresolved', 'no-results', 3])
  assert.equal(Buffer.from((await readLog(store, keyOf('test_output.txt'))) ?? '').toString(), 'run 3')
})

test('one endless run in the last attempt gives no verdict', async () => {
  const { attempt, runs } = attemptOf('last', ['never-ends'])
  const { kind, reason } = await attempt(5)
  assert.deepEqual([kind, reason, runs()], ['could-not-grade', 'tests-timed-out', 1])
})

test('a gate gives no verdict after two endless runs, since they do not prove that the limit is enough', async () => {
  const { sandbox, runs } = hostOf(['never-ends', 'never-ends'])
  const { kind, reason } = await runGrading(
    { store, sandbox, ensureImage: async () => undefined },
    {
      run: 'r',
      episode: 'r/gate',
      owner: 'o',
      role: 'gate',
      limits: { cpus: 1, memoryMiB: 1, pids: 1 },
      patch: new Uint8Array(),
      task,
      logKey: 'gradings/gate/log.txt',
    },
    never,
  )
  assert.deepEqual([kind, reason, runs()], ['could-not-grade', 'tests-timed-out', 2])
})

test('a patch that does not apply, or whose log is no text, gets a verdict at once', async () => {
  const rejected = attemptOf('rejected', ['does-not-apply'])
  const { kind, reason } = await rejected.attempt(1)
  assert.deepEqual([kind, reason, rejected.runs()], ['unresolved', 'patch-rejected', 1])
  const garbled = attemptOf('garbled', ['no-text', 'no-text'])
  const found = await garbled.attempt(1)
  assert.deepEqual([found.kind, found.reason, garbled.runs()], ['unresolved', 'undecodable-log', 2])
})

test('a patch that ends its own grading twice, in either way, gets a verdict', async () => {
  const ended = new LonghaulError({ code: 'Grading.Ended', message: 'ended from inside' })
  const twice = attemptOf('ended', [ended, ended])
  await assert.rejects(twice.attempt(1), { code: 'Grading.Ended', retryable: true })
  const { kind, reason, failToPass } = await twice.attempt(2)
  assert.deepEqual([kind, reason, failToPass.passed, twice.runs()], ['unresolved', 'grading-ended', 0, 2])
  const mixed = attemptOf('ended-then-endless', [ended, 'never-ends'])
  await assert.rejects(mixed.attempt(1), { code: 'Grading.Ended' })
  assert.deepEqual((await mixed.attempt(2)).kind, 'unresolved')
  const other = attemptOf('endless-then-ended', ['never-ends', ended])
  await assert.rejects(other.attempt(1), { code: 'Grading.Failed' })
  assert.deepEqual((await other.attempt(2)).reason, 'grading-ended')
})

test('a gate reports that a gold patch does not apply', async () => {
  const { sandbox } = hostOf(['does-not-apply'])
  const { kind, reason } = await runGrading(
    { store, sandbox, ensureImage: async () => undefined },
    {
      run: 'r',
      episode: 'r/gate-2',
      owner: 'o',
      role: 'gate',
      limits: { cpus: 1, memoryMiB: 1, pids: 1 },
      patch: Buffer.from('x'),
      task,
      logKey: 'gradings/gate-2/log.txt',
    },
    never,
  )
  assert.deepEqual([kind, reason], ['could-not-grade', 'patch-rejected'])
})
