import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { keepCosts, readCosts, readKeptCosts, TRAINER_JOB } from './file-costs.ts'

const judged = { passed: 1, failures: [], skips: [] }

test('a run reads the measured cost of each file, of the trainer’s tests as one job, and a guess for new files', async () => {
  const root = await mkdtemp(join(tmpdir(), 'file-costs-'))
  try {
    await mkdir(join(root, 'test/support/runner'), { recursive: true })
    const results = [
      { file: 'test/b.test.ts', seconds: 40.04, cpuSeconds: 4, ...judged },
      { file: 'src/a.test.ts', seconds: 7, ...judged },
      { file: 'trainer/tests/test_a.py', seconds: 20, ...judged },
      { file: '(the run)', seconds: 0, ...judged },
    ]
    await keepCosts(root, { results, trainerSeconds: 90 })
    assert.deepEqual(Object.keys(await readKeptCosts(root)), ['src/a.test.ts', 'test/b.test.ts', TRAINER_JOB])
    const costOf = await readCosts(root)
    assert.deepEqual(costOf('test/b.test.ts'), { seconds: 40, cpuSeconds: 4 })
    assert.deepEqual(costOf('src/a.test.ts'), { seconds: 7, cpuSeconds: 7 }, 'what is not known computes')
    assert.deepEqual(costOf(TRAINER_JOB), { seconds: 90, cpuSeconds: 90 })
    assert.ok(costOf('test/new.test.ts').seconds > costOf('src/new.test.ts').seconds)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})
