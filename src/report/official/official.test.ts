import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type OfficialPrediction,
  guessFailure,
  officialInstanceReport,
  officialRunReport,
  pythonJson,
  rebenchV2Report,
  runReportName,
  sortByCodePoint,
} from './run-report.ts'

const prediction = (taskId: string, resolved: boolean | null, more: Partial<OfficialPrediction> = {}) => ({
  taskId,
  model: 'org/m',
  isEmpty: false,
  resolved,
  logs: [],
  ...more,
})

const MIXED = [
  prediction('b__b-2', true),
  prediction('a__a-1', false),
  prediction('c__c-3', null, { logs: ['collected 0 items'] }),
  prediction('d__d-4', null, { isEmpty: true }),
]
const IDS = ['a__a-1', 'b__b-2', 'c__c-3', 'd__d-4', 'e__e-5']

test('run report of 4.1: counts, then sorted lists, the schema version last, and a final newline', () => {
  const text = officialRunReport({ profile: 'swebench-4.1', taskIds: IDS, predictions: MIXED })
  assert.equal(
    text,
    `${JSON.stringify(
      {
        total_instances: 5,
        submitted_instances: 4,
        completed_instances: 2,
        resolved_instances: 1,
        unresolved_instances: 1,
        empty_patch_instances: 1,
        error_instances: 1,
        completed_ids: ['a__a-1', 'b__b-2'],
        incomplete_ids: ['e__e-5'],
        empty_patch_ids: ['d__d-4'],
        submitted_ids: ['a__a-1', 'b__b-2', 'c__c-3', 'd__d-4'],
        resolved_ids: ['b__b-2'],
        unresolved_ids: ['a__a-1'],
        error_ids: ['c__c-3'],
        schema_version: 2,
      },
      null,
      4,
    )}\n`,
  )
  assert.equal(text, officialRunReport({ profile: 'fork-4.0.3', taskIds: IDS, predictions: MIXED }))
})

test('run report of 5: guesses beside the counts, and unfinished instances at the end', () => {
  const report = JSON.parse(officialRunReport({ profile: 'swebench-5', taskIds: IDS, predictions: MIXED })) as Record<
    string,
    unknown
  >
  assert.deepEqual(Object.keys(report).slice(4, 9), [
    'unresolved_instances',
    'infra_failure_instances',
    'ambiguous_failure_instances',
    'empty_patch_instances',
    'error_instances',
  ])
  assert.deepEqual(Object.keys(report).slice(-9), [
    'unresolved_ids',
    'infra_failure_ids',
    'ambiguous_failure_ids',
    'failure_reasons',
    'error_ids',
    'schema_version',
    'unstopped_instances',
    'unstopped_containers',
    'unremoved_images',
  ])
  assert.deepEqual(report['failure_reasons'], { 'c__c-3': 'no_tests_collected' })
  assert.deepEqual([report['infra_failure_ids'], report['ambiguous_failure_ids']], [[], ['c__c-3']])
})

test('names the run report after the first model, including slashes', () => {
  assert.equal(runReportName({ model: 'org/sub/m', runId: 'r1' }), 'org__sub__m.r1.json')
})

test('report.json has lists only where results were found, and no final newline', () => {
  const tests = { failToPass: { success: ['t::ü'], failure: [] }, passToPass: { success: [], failure: ['t::b'] } }
  const found = officialInstanceReport({ profile: 'swebench-4.1', taskId: 'x__y-1', resolved: false, tests, log: '' })
  assert.match(found, /^\{\n {4}"x__y-1": \{\n {8}"patch_is_None": false,\n {8}"patch_exists": true,/)
  assert.match(found, /"t::\\u00fc"/)
  assert.ok(!found.endsWith('\n'))
  const missing = { taskId: 'x__y-1', resolved: false, tests: null, log: 'sh: Cannot allocate memory' }
  assert.deepEqual(JSON.parse(officialInstanceReport({ profile: 'fork-4.0.3', ...missing })), {
    'x__y-1': { patch_is_None: false, patch_exists: true, patch_successfully_applied: false, resolved: false },
  })
  assert.deepEqual(JSON.parse(officialInstanceReport({ profile: 'swebench-5', ...missing })), {
    'x__y-1': {
      patch_is_None: false,
      patch_exists: true,
      patch_successfully_applied: false,
      resolved: false,
      infra_failure: true,
      infra_failure_reason: 'out_of_memory',
    },
  })
})

test('guesses: prefers environment causes, needs a whole line for Killed, and accepts any line end', () => {
  assert.deepEqual(guessFailure(['ModuleNotFoundError', 'Could not resolve host']), {
    reason: 'network_unreachable',
    tier: 'environment',
  })
  assert.equal(guessFailure(['a\r\nKilled\r\nb'])?.reason, 'out_of_memory')
  assert.equal(guessFailure(['process Killed']), null)
  assert.equal(guessFailure(['Timeout error: 1800 seconds exceeded.'])?.reason, 'tests_timed_out')
  assert.equal(guessFailure([]), null)
})

test('SWE-rebench-V2: sets on both sides, only the two lists for an error, and all_ok only without an error', () => {
  const done = {
    taskId: 'a',
    failToPass: ['f2', 'f1', 'f1'],
    passToPass: ['p1', 'p2'],
    result: { passed: ['f1', 'p2'], matches: false, exitCode: 1, logPath: 'logs/a_log.txt' },
    error: '',
  }
  const failed = { taskId: 'b', failToPass: ['f'], passToPass: ['p2', 'p1'], result: null, error: 'Täsk' }
  const text = rebenchV2Report({ maxWorkers: 4, outcomes: [done, failed] })
  assert.equal(
    text,
    JSON.stringify(
      {
        max_workers: 4,
        total: 2,
        all_ok: false,
        items: [
          {
            instance_id: 'a',
            from_fail_to_pass: ['f1'],
            failed_from_pass_to_pass: ['p1'],
            passed_match: false,
            exit_code: 1,
            log_path: 'logs/a_log.txt',
            error: '',
          },
          { instance_id: 'b', from_fail_to_pass: [], failed_from_pass_to_pass: ['p1', 'p2'], error: 'Täsk' },
        ],
      },
      null,
      2,
    ),
  )
})

test('orders and escapes text like Python', () => {
  assert.deepEqual(sortByCodePoint(['\u{1F600}', '\uFF5E', 'ab', 'a']), ['a', 'ab', '\uFF5E', '\u{1F600}'])
  assert.equal(pythonJson(['\u007F\u{1F600}'], { indent: 4 }), '[\n    "\\u007f\\ud83d\\ude00"\n]')
})
