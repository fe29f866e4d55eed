/**
 * The same predictions graded in containers by the official harnesses and by Longhaul: the same scripts, reports of instances
 * and reports of runs. `npm run bench:grading-containers` does it with every task and kind of patch.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { compareContainers } from '../support/grading-oracle/compare-containers.ts'
import { harnessPython, locateHarness } from '../support/grading-oracle/oracle.ts'
import { hasHostPrograms } from '../support/layouts/images.ts'
import { buildLayoutImages, layoutTasks, removeLayoutImages } from '../support/layouts/layout-tasks.ts'
import type { PatchKind } from '../support/layouts/patches.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
/** Runners that start fast. */
const PICKED = ['sympy/sympy', 'django/django']
const tasks = layoutTasks({ series: process.pid, layouts: ['conda'] })
const picked = (['swebench-4.1', 'swebench-5'] as const).map((profile) => ({
  profile,
  tasks: PICKED.flatMap(
    (repo) => tasks.find(({ task }) => task.gradingProfile === profile && task.repo === repo) ?? [],
  ),
}))
/** Only the first run on a machine needs the registry. */
const missing = await Promise.all([harnessPython(), locateHarness('swebench-4.1'), locateHarness('swebench-5')]).then(
  () => false as const,
  (error: Error) => `the official harnesses cannot be installed here: ${error.message}`,
)
let engine: Engine

before(async () => {
  engine = await connectEngine()
  const all = picked.flatMap((one) => one.tasks)
  await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks: all })
})

after(async () => {
  await removeLayoutImages({ engine, tasks: picked.flatMap((one) => one.tasks) })
  rmSync(root, { recursive: true })
})

const KINDS: PatchKind[] = ['gold', 'empty', 'half-fuzzy', 'no-final-newline', 'collision']

for (const { profile, tasks: chosen } of picked) {
  test(`${profile}: every kind of patch is reported like the harness reports it`, {
    skip: hasHostPrograms() ? missing : 'this machine has no /usr/bin/patch to put into the images',
  }, async () => {
    const { differences, predictions, outcomes } = await compareContainers({
      engine,
      harness: profile,
      tasks: chosen,
      kinds: KINDS,
      folder: join(root, profile),
      workers: 2,
    })
    assert.deepEqual(differences, [])
    assert.equal(predictions, KINDS.length * chosen.length)
    assert.ok((outcomes['resolved'] ?? 0) >= 2 * chosen.length, JSON.stringify(outcomes))
  })
}
