/** Which gradings are audited. The containers are scripted, all else is real. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { GRADED_ON, loadGradedTask } from '../../../test/support/graded-task.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { normalizeRow } from '../../adapters/datasets/normalize-row.ts'
import type { AuditRun } from '../../contracts/audit.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { AuditRunInput, GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import { evalScriptOf, profileFor, runGrading } from './run-grading.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-run-grading-'))
const store = createDirectoryStore({ root })
const task = await loadGradedTask()
after(() => rmSync(root, { recursive: true }))

const NO_BYTES = new Uint8Array()
const unread: AuditRun = { kind: 'failed', canonicalPatch: NO_BYTES, result: NO_BYTES, errors: '', wallMs: 7 }

/** A host whose official steps print the given status of each listed test. */
function hostOf(status: string, audit: () => Promise<AuditRun>): { sandbox: SandboxHost; audited: AuditRunInput[] } {
  const audited: AuditRunInput[] = []
  const lines = [...task.failToPass, ...task.passToPass].map((name) => `${status} ${name}`)
  const log = Buffer.from(['>>>>> Start Test Output', ...lines, '>>>>> End Test Output', ''].join('\n'))
  const grade = async (): Promise<GradeRunResult> => ({
    kind: 'ran',
    exitCode: 0,
    log,
    ...GRADED_ON,
    wallMs: 5,
  })
  const noted = async (input: AuditRunInput): Promise<AuditRun> => {
    audited.push(input)
    return audit()
  }
  return { sandbox: { grade, audit: noted } as unknown as SandboxHost, audited }
}

const grading = (sandbox: SandboxHost, patch: string) =>
  runGrading(
    { store, sandbox, ensureImage: async () => undefined },
    {
      run: 'r',
      episode: 'r/e',
      owner: 'o',
      role: 'grader',
      limits: { cpus: 1, memoryMiB: 1, pids: 1 },
      patch: Buffer.from(patch),
      task,
      logKey: 'gradings/log.txt',
    },
    AbortSignal.timeout(60_000),
  )

test('a patch that does not resolve its task is not audited', async () => {
  const { sandbox, audited } = hostOf('FAILED', async () => unread)
  const { kind, audit } = await grading(sandbox, task.goldPatch)
  assert.deepEqual([kind, audit, audited.length], ['unresolved', undefined, 0])
})

test('a resolving patch is audited once with the official patch, image and limits', async () => {
  const { sandbox, audited } = hostOf('PASSED', async () => unread)
  const { kind, gradeMs, audit } = await grading(sandbox, task.goldPatch)
  assert.deepEqual([kind, gradeMs, audit?.outcome, audit?.auditMs], ['resolved', 5, 'void', 7])
  assert.equal(audited.length, 1)
  const [{ patch, image, role, limits, audit: plan } = {} as AuditRunInput] = audited
  assert.deepEqual([Buffer.from(patch).toString(), image, role], [task.goldPatch, task.image, 'grader'])
  assert.deepEqual(limits, { cpus: 1, memoryMiB: 1, pids: 1 })
  assert.deepEqual(plan.tests?.focus, task.failToPass)
})

test('an audit that infrastructure ended leaves no verdict, and the next attempt grades and audits again', async () => {
  const lost = new LonghaulError({ code: 'Sandbox.EngineUnavailable', message: 'gone' })
  const { sandbox } = hostOf('PASSED', () => Promise.reject(lost))
  await assert.rejects(grading(sandbox, task.goldPatch), { code: 'Sandbox.EngineUnavailable' })
})

test('an empty patch is not audited, whatever its tests report', async () => {
  const { sandbox, audited } = hostOf('PASSED', async () => unread)
  const { kind, audit } = await grading(sandbox, '')
  assert.deepEqual([kind, audit, audited.length], ['resolved', undefined, 0])
})

test('the script that is written for a row of version 5 copies the files that gradings fetch, and no others', () => {
  const row = {
    base_commit: 'a'.repeat(40),
    patch: task.goldPatch,
    test_patch: task.testPatch,
    problem_statement: 'It breaks.',
    FAIL_TO_PASS: ['a'],
    PASS_TO_PASS: [],
    instance_id: 'pallets__flask-1',
    repo: 'pallets/flask',
    image: 'o/i',
    eval_script: ": '>>>>> Start Test Output'\n: '>>>>> End Test Output'",
    eval_type: 'pass_and_fail',
    log_parser: 'parse_log_pytest',
    image_assets: { test_patch: [{ path: 'a.png', url: 'https://example.org/a.png' }, { path: 'b.png' }], patch: [] },
  }
  const copied = evalScriptOf(normalizeRow(row)).match(/cp .*/g)
  assert.deepEqual(copied, ['cp /image_assets/a.png a.png'])
})

test('a row is refused by each profile whose script would run without a test of it', () => {
  const { goldPatch, testPatch } = task
  const columns = {
    base_commit: 'a'.repeat(40),
    patch: goldPatch,
    test_patch: testPatch,
    problem_statement: 'It breaks.',
    FAIL_TO_PASS: ['a'],
    PASS_TO_PASS: [],
  }
  const classic = { ...columns, instance_id: 'pallets__flask-1', repo: 'pallets/flask', version: '2.3' }
  const five = {
    ...classic,
    image: 'o/i',
    eval_script: 'x',
    eval_type: 'pass_and_fail',
    log_parser: 'parse_log_pytest',
  }
  const two = {
    ...columns,
    instance_id: 'o__r-1',
    repo: 'o/r',
    language: 'python',
    image_name: 'o/i',
    install_config: { test_cmd: ['pytest'], log_parser: 'parse_log_pytest' },
  }
  const refused = (row: object, profile: 'fork-4.0.3' | 'rebench-v2', message: RegExp) =>
    assert.throws(() => profileFor(normalizeRow(row), profile), { code: 'Config.Invalid', message })
  refused(classic, 'fork-4.0.3', /no install_config\.test_cmd/)
  refused(five, 'fork-4.0.3', /no install_config\.test_cmd/)
  refused(five, 'rebench-v2', /no install_config\.test_cmd/)
  refused(two, 'fork-4.0.3', /its repository is at \/r/)
  assert.equal(profileFor(normalizeRow(five), 'swebench-4.1'), 'swebench-4.1')
})
