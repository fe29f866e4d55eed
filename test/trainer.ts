/**
 * The trainer's own tests alone, without a stack. Part of `npm test`, where they are bounded alike.
 *
 *   npm run test:trainer [-- --full] [-- --out bench/results/trainer-proofs.json]
 *
 * `--full` runs the long proofs too: two ranks killed, together and alone, at every place, and one of them stopped. Exit 1 where a
 * test failed. `--out` keeps how each of these ended and what recovery cost.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { benchArguments } from '../bench/support/arguments.ts'
import { commit, versions } from '../bench/support/versions.ts'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { REVIEWED_SKIPS } from './reviewed-skips.ts'
import { offerTestPackages } from './support/runner/trainer-test-packages.ts'
import { runTrainerTests } from './support/runner/run-trainer-tests.ts'
import { summarise } from './support/runner/summarise.ts'

const { values } = benchArguments({ options: { full: { type: 'boolean', default: false }, out: { type: 'string' } } })
// The quick ones take three minutes on two idle cores, the long ones half an hour; other work may load them tenfold.
const timeoutMs = (values.full ? 120 : 40) * 60_000
const scratch = await mkdtemp(join(tmpdir(), 'longhaul-trainer-test-'))
try {
  const started = Date.now()
  const strikesFile = join(scratch, 'strikes.jsonl')
  const root = join(import.meta.dirname, '..')
  await offerTestPackages({ root })
  const results = await runTrainerTests({
    root,
    scratch,
    python: await findOrMakePython(),
    isFull: values.full,
    strikes: strikesFile,
    timeoutMs,
  })
  const { text, exitCode, passed, failed, skipped } = summarise(results, REVIEWED_SKIPS)
  const seconds = Math.round((Date.now() - started) / 1000)
  const result = { full: values.full, passed, failed, skipped, seconds }
  console.log(text)
  if (values.out !== undefined) {
    const lines = (await readFile(strikesFile, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '')
    const strikes = lines.map((line) => JSON.parse(line) as unknown)
    const facts = { commit: commit(), date: new Date().toISOString().slice(0, 10), ...result, versions: versions() }
    await writeFile(values.out, `${JSON.stringify({ ...facts, strikes }, null, 1)}\n`)
  }
  process.exitCode = exitCode
} finally {
  await rm(scratch, { recursive: true, force: true })
}
