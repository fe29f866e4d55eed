/** `npm run bench:real-logs` on a folder that is laid out like the repositories which store such logs; the logs themselves are not ours. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'

const BENCH = join(import.meta.dirname, '../../bench/real-logs.ts')
const folder = await mkdtemp(join(tmpdir(), 'longhaul-real-logs-'))
after(() => rm(folder, { recursive: true, force: true }))

async function store(path: string, text: string): Promise<string> {
  const file = join(folder, path)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
  return file
}

function bench(...options: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [BENCH, ...options], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
  })
}

/** As the first harness wrote them: no markers, the tests' output behind the second patch. */
const FIRST_FORMAT = [
  'Task Metadata:',
  '>>>>> Applied Patch (test)',
  'PASSED tests/a.py::before',
  '>>>>> Applied Patch (pred)',
  'Output:',
  'PASSED tests/a.py::one',
  'FAILED tests/a.py::two - boom',
].join('\n')
const MARKED = [
  "+ : '>>>>> Start Test Output'",
  'PASSED tests/b.py::one',
  'PASSED tests/b.py::two',
  "+ : '>>>>> End Test Output'",
].join('\n')

test('logs of both formats agree with the official harnesses, and a wrong record is explained', async () => {
  const logs = join(folder, 'from')
  await store('from/agent/logs/pallets__flask-1.model.eval.log', FIRST_FORMAT)
  await store('from/agent/logs/pallets__flask-2.model.eval.log', `${FIRST_FORMAT}\n`)
  // The same bytes once more count once.
  await store('from/agent/logs/copy/pallets__flask-2.model.eval.log', `${FIRST_FORMAT}\n`)
  await store(
    'from/agent/report.json',
    JSON.stringify({ generated: ['pallets__flask-1'], resolved: ['pallets__flask-1'] }),
  )
  await store('from/other/run/psf__requests-7/test_output.txt', MARKED)
  await store('from/other/run/psf__requests-7/report.json', JSON.stringify({ 'psf__requests-7': { resolved: true } }))
  const info = { instance_id: 'psf__requests-7', FAIL_TO_PASS: ['tests/b.py::one'], PASS_TO_PASS: ['tests/b.py::two'] }
  await store('from/other/meta.json', JSON.stringify({ task_info: info }))
  const rows = await store(
    'rows.jsonl',
    `${JSON.stringify({
      instance_id: 'pallets__flask-1',
      FAIL_TO_PASS: '["tests/a.py::one", "tests/a.py::two"]',
      PASS_TO_PASS: '["tests/a.py::before"]',
    })}\n`,
  )
  const kinds = ['--kind', 'swebench-4.1', '--kind', 'swebench-5']
  const { code, stdout, stderr } = await bench('--from', logs, '--rows', rows, ...kinds, '--json')
  assert.equal(code, 0, stderr)
  const result = JSON.parse(stdout) as {
    logs: number
    withTests: number
    sources: object
    rows: { kind: string; cases: object; differences: number }[]
    recorded: object
  }
  assert.equal(result.logs, 3)
  assert.equal(result.withTests, 2)
  assert.deepEqual(result.sources, { agent: 2, other: 1 })
  assert.deepEqual(
    result.rows.map(({ kind, cases, differences }) => ({ kind, cases, differences })),
    [
      { kind: 'swebench-4.1', cases: { graded: 3, 'as stored': 3 }, differences: 0 },
      { kind: 'swebench-5', cases: { graded: 3 }, differences: 0 },
    ],
  )
  assert.deepEqual(result.recorded, {
    compared: 2,
    differing: [
      {
        log: 'agent/logs/pallets__flask-1.model.eval.log',
        recorded: true,
        official: false,
        why: '1 listed tests failed, "tests/a.py::two" first; 1 are not in the log, "tests/a.py::before" first',
      },
    ],
  })
})

test('a folder without logs ends with 2, and a missing folder is a usage error', async () => {
  await mkdir(join(folder, 'empty'))
  const empty = await bench('--from', join(folder, 'empty'), '--kind', 'swebench-4.1')
  assert.equal(empty.code, 2)
  assert.match(empty.stderr, /Nothing was compared: 0 logs/)
  const absent = await bench('--from', join(folder, 'absent'))
  assert.equal(absent.code, 1)
  assert.match(absent.stderr, /^Expected a folder of logs, got .*absent\n/)
  assert.match((await bench()).stderr, /^Expected --from DIRECTORY/)
})
