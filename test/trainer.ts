/**
 * `npm run test:trainer`: the trainer's own tests alone, without a stack. Part of `npm test`, where they are bounded alike.
 *
 *   npm run test:trainer [-- --full] [-- --out bench/results/trainer-proofs.json]
 *
 * `--full` runs the long proofs too: two ranks killed at every kind of place. Exit 1 where a test failed.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

import { versions } from '../bench/support/versions.ts'
import { findOrMakePython } from '../src/stack/trainer-python.ts'
import { runTrainerTests } from './support/run-trainer-tests.ts'

const { values } = parseArgs({ options: { full: { type: 'boolean', default: false }, out: { type: 'string' } } })
// Ten minutes bound the quick ones on two cores; the long ones start dozens of processes that each import torch.
const timeoutMs = (values.full ? 60 : 10) * 60_000
const scratch = await mkdtemp(join(tmpdir(), 'longhaul-trainer-test-'))
try {
  const started = Date.now()
  const counts = await runTrainerTests({
    root: join(import.meta.dirname, '..'),
    scratch,
    python: await findOrMakePython(),
    isFull: values.full,
    timeoutMs,
  })
  const result = { full: values.full, ...counts, seconds: Math.round((Date.now() - started) / 1000) }
  console.log(`${counts.passed} passed, ${counts.failed} failed`)
  if (values.out !== undefined) {
    await writeFile(values.out, `${JSON.stringify({ ...result, versions: versions() }, null, 2)}\n`)
  }
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0
} finally {
  await rm(scratch, { recursive: true, force: true })
}
