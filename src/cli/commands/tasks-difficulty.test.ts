import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
  for (const taskId of ['a', 'b', 'c']) {
    await putPart(store, suiteKeys.task('suite', taskId), { taskId, rowHash: `row ${taskId}` })
  }
  await play('one', 'dapo-1', 1, { a: 'RRRU', b: 'UU', c: 'RU' })
  await play('one', 'eval-rl', 0, { b: 'R' })
  await play('two', 'dapo-1', 1, { c: 'UU', b: 'U' })
})

after(() => close())

/** R = resolved, U = unresolved. */
async function play(run: string, stage: string, iteration: number, tasks: Record<string, string>): Promise<void> {
  const plan = { schema: 'longhaul.plan/1', run, stage, iteration, suite: 'suite', groupSize: 1 }
  await putPart(store, runKeys.plan(run, stage, iteration), { ...plan, taskIds: Object.keys(tasks) })
  for (const [taskId, letters] of Object.entries(tasks)) {
    for (const [index, letter] of Array.from(letters).entries()) {
      const verdict = letter === 'R' ? ('resolved' as const) : ('unresolved' as const)
      const record = makeRecord({ run, stage, iteration, taskId, index, verdict })
      await putPart(store, episodeKeys.result(record.episode), record)
    }
  }
}

test('attempts of all runs are merged, hardest first, with the interval and what the second stage makes of it', async () => {
  const { exitCode, stdout } = await longhaul('tasks', 'difficulty', 'one', 'two', 'one', '--stage', 'dapo-1')
  assert.equal(exitCode, 0)
  const rows = stdout.split('\n').filter((line) => /^[abc] /.test(line))
  assert.deepEqual(
    rows.map((row) => row.split(/ {2,}/).map((cell) => cell.trim())),
    [
      ['b', '0 of 3', '0.000', '0.000 to 0.561', '0', '2', '1', 'never-solved'],
      ['c', '1 of 4', '0.250', '0.046 to 0.699', '0', '2', '1', 'kept'],
      ['a', '3 of 4', '0.750', '0.301 to 0.954', '0', '1', '1', 'solved-often'],
    ],
  )
  assert.match(stdout, /1 of 3 tasks kept: 1 solved too often, 1 never \(11 graded attempts\)/)
})

test('without --stage every graded attempt counts; kept ids are written, one a line', async () => {
  const output = join(root, 'kept.txt')
  const args = ['tasks', 'difficulty', 'one', 'two', '--drop-solved', '0.9', '--output', output, '--json']
  const { exitCode, stdout } = await longhaul(...args)
  assert.equal(exitCode, 0)
  assert.equal(await readFile(output, 'utf8'), 'a\nb\nc\n')
  const { tasks, rule } = JSON.parse(stdout) as { tasks: { taskId: string; resolved: number }[]; rule: object }
  assert.deepEqual(
    tasks.map(({ taskId, resolved }) => [taskId, resolved]),
    [
      ['a', 3],
      ['b', 1],
      ['c', 1],
    ],
  )
  assert.deepEqual(rule, { dropSuccessAtLeast: 0.9, dropNeverSolved: true, unseen: 'keep' })
})

test('a run without attempts, and a rate that is none, are usage mistakes', async () => {
  const missing = await longhaul('tasks', 'difficulty', 'absent')
  assert.equal(missing.exitCode, 1)
  assert.match(missing.stderr, /No run called "absent" is in the artifact store/)
  const beside = await longhaul('tasks', 'difficulty', 'one', 'absent')
  assert.equal(beside.exitCode, 1)
  assert.match(beside.stderr, /No run called "absent" is in the artifact store/)
  const stage = await longhaul('tasks', 'difficulty', 'one', 'two', '--stage', 'dapo-1', '--stage', 'dapo-7')
  assert.equal(stage.exitCode, 1)
  assert.match(stage.stderr, /No attempt is of the stage dapo-7/)
  assert.equal((await longhaul('tasks', 'difficulty', 'one', '--drop-solved', '3/2')).exitCode, 1)
})
