/**
 * Stored pytest logs graded per second and core, through the command line as a user calls it.
 *
 *   npm run bench:grade-log -- [--logs 5000] [--json] [--out bench/results/grade-log.json]
 *
 * Each log has 20 KB and 120 results; each request lists 60 tests. `logsPerCpuSecond` divides by the CPU time of the whole process,
 * including start and garbage collection; `marginal` subtracts the cost of a batch of one log.
 */
import { execFile } from 'node:child_process'
import { open, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { LOG_PROFILES } from '../src/grading/log-profiles.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

const LOG_BYTES = 20 * 1024
const RESULTS = 120
const LISTED = 60
/** Distinct logs, repeated so that the file stays small enough for any disk. */
const DISTINCT = 50

endWith2OnError()
const { values } = benchArguments({
  options: {
    logs: { type: 'string', default: '5000' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

const folder = await mkdtemp(join(tmpdir(), 'longhaul-bench-'))
try {
  const rows: object[] = []
  for (const profile of Object.keys(LOG_PROFILES)) rows.push(await measure(profile, Number(values.logs)))
  const { node, cores, kernel, provenance } = versions()
  const result = {
    bench: 'grade-log',
    date: new Date().toISOString(),
    node,
    cores,
    kernel,
    provenance,
    logBytes: LOG_BYTES,
    rows,
  }
  if (values.out !== undefined) await writeFile(values.out, `${JSON.stringify(result, null, 2)}\n`)
  console.log(JSON.stringify(result, null, values.json ? 2 : 0))
  process.exitCode = conclude({ compared: { profiles: rows.length, logs: Number(values.logs) }, violations: 0 })
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function measure(profile: string, logs: number): Promise<object> {
  const start = await gradeFile(profile, 1)
  const all = await gradeFile(profile, logs)
  return {
    profile,
    logs,
    wallS: round(all.wallS),
    cpuS: round(all.cpuS),
    startCpuS: round(start.cpuS),
    logsPerWallSecond: Math.round(logs / all.wallS),
    logsPerCpuSecond: Math.round(logs / all.cpuS),
    marginalLogsPerCpuSecond: Math.round((logs - 1) / (all.cpuS - start.cpuS)),
    peakMiB: Math.round(all.peakKiB / 1024),
  }
}

/** Grades one batch and discards the output. @throws Error if a log is not graded */
async function gradeFile(profile: string, logs: number): Promise<{ wallS: number; cpuS: number; peakKiB: number }> {
  const file = join(folder, 'batch.jsonl')
  const handle = await open(file, 'w')
  const lines = Array.from({ length: DISTINCT }, (_, index) => requestLine(profile, index))
  for (let index = 0; index < logs; index += 1) await handle.appendFile(lines[index % DISTINCT] ?? '')
  await handle.close()
  // The process reports its own usage when it exits, so nothing is sampled from outside.
  const probe = `
    import { writeFileSync } from 'node:fs'
    process.on('exit', () => {
      const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
      const used = { wallS: performance.now() / 1000, cpuS: (userCPUTime + systemCPUTime) / 1e6, peakKiB: maxRSS }
      writeFileSync(${JSON.stringify(join(folder, 'usage.json'))}, JSON.stringify(used))
    })`
  const { stderr } = await promisify(execFile)('/bin/sh', [
    '-c',
    'exec "$0" "$@" > /dev/null',
    process.execPath,
    '--import',
    `data:text/javascript,${encodeURIComponent(probe)}`,
    join(import.meta.dirname, '../src/cli/main.ts'),
    'grade-log',
    '--batch',
    file,
    '--json',
  ])
  if (!stderr.includes(`${logs} logs graded, 0 errors`)) throw new Error(`Not every log was graded: ${stderr}`)
  const usage = await open(join(folder, 'usage.json'))
  const text = await usage.readFile('utf8')
  await usage.close()
  return JSON.parse(text) as { wallS: number; cpuS: number; peakKiB: number }
}

function requestLine(profile: string, index: number): string {
  const ids = Array.from(
    { length: RESULTS },
    (_, test) => `tests/test_module_${index}.py::TestCase::test_number_${test}[value-${test % 7}]`,
  )
  const results = ids.map((id, test) =>
    test % 17 === 16 ? `FAILED ${id} - AssertionError: assert 1 == 2` : `PASSED ${id}`,
  )
  const filler = '    def test_something(self):  # a line of the traceback, as long as they are\n'
  const around = `+ pytest -rA\n>>>>> Start Test Output\n${results.join('\n')}\n>>>>> End Test Output\n`
  const log = filler.repeat(Math.ceil((LOG_BYTES - around.length) / filler.length)) + around
  return `${JSON.stringify({
    id: String(index),
    profile,
    parser: 'parse_log_pytest',
    logBase64: Buffer.from(log).toString('base64'),
    failToPass: ids.slice(0, 5),
    passToPass: ids.slice(5, LISTED),
  })}\n`
}

function round(seconds: number): number {
  return Math.round(seconds * 100) / 100
}
