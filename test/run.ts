/**
 * `npm test`: set-up, unit tests, one stack for the whole-system tests, the trainer's tests, then everything that was started
 * is stopped. Arguments are files or globs to run instead of all. Ends with `N passed, N failed`; exit 0, 1 (tests failed),
 * 2 (nothing could be tested) or 130.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

import { toLonghaulError } from '../src/contracts/errors.ts'
import { startStack, type RunningStack } from '../src/stack/start-stack.ts'
import { runTrainerTests, type Counts } from './support/run-trainer-tests.ts'

const root = join(import.meta.dirname, '..')
const chosen = process.argv.slice(2)
const interrupt = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort(new Error(signal)))

process.exitCode = await main()

async function main(): Promise<number> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-test-'))
  // Whatever a test forgets lies below this folder, and goes with it.
  const scratch = await mkdtemp(join(home, 'tmp-'))
  const total: Counts = { passed: 0, failed: 0 }
  let stack: RunningStack | null = null
  try {
    console.error('test    set-up and a stack of its own')
    stack = await startStack({
      name: `test-${process.pid}`,
      home,
      signal: interrupt.signal,
    })
    Object.assign(process.env, stack.environment, { TMPDIR: scratch })
    const files = chosen.length > 0 ? chosen.filter((file) => !file.startsWith('trainer')) : null
    if (files === null || files.length > 0) {
      for (const globs of files === null
        ? [['src/**/*.test.ts', 'policies/**/*.test.ts'], ['test/**/*.test.ts']]
        : [files]) {
        add(total, await runNodeTests(globs))
      }
    }
    if (chosen.length === 0 || chosen.some((file) => file.startsWith('trainer'))) {
      const python = stack.environment['LONGHAUL_PYTHON'] ?? 'python3'
      add(total, await runTrainerTests({ root, scratch, python, timeoutMs: 15 * 60_000, signal: interrupt.signal }))
    }
  } catch (error) {
    if (!interrupt.signal.aborted) {
      console.error(toLonghaulError(error).message)
      return 2
    }
  } finally {
    await stack?.stop()
    await rm(home, { recursive: true, force: true })
    console.log(`${total.passed} passed, ${total.failed} failed`)
  }
  if (interrupt.signal.aborted) return 130
  return total.failed > 0 || total.passed === 0 ? 1 : 0
}

function runNodeTests(globPatterns: string[]): Promise<Counts> {
  const counts: Counts = { passed: 0, failed: 0 }
  const stream = run({
    cwd: root,
    globPatterns,
    // Whole-system tests share one stack and two cores: side by side they would only wait for each other.
    concurrency: globPatterns.some((glob) => glob.startsWith('src')) ? availableParallelism() : 1,
    signal: interrupt.signal,
  })
  stream.on('test:pass', (event) => {
    if (event.details.type !== 'suite' && event.skip === undefined) counts.passed += 1
  })
  stream.on('test:fail', (event) => {
    if (event.details.type !== 'suite') counts.failed += 1
  })
  return new Promise((resolve, reject) => {
    const printed = stream.compose(new spec())
    printed.on('data', (text: Buffer | string) => process.stdout.write(text))
    printed.on('end', () => resolve(counts))
    printed.on('error', reject)
  })
}

function add(total: Counts, counts: Counts): void {
  total.passed += counts.passed
  total.failed += counts.failed
}
