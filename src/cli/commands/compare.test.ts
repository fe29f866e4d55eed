import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { type Attempt, makeEvaluation } from '../../../test/support/evaluation-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import { compareEvaluations } from '../../domain/statistics/comparison.ts'
import { judgeComparison } from '../output/compare-evaluations.ts'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
  // 60 tasks. `good` resolves 50 of them, `bad` 20 of those, `same` 49.
  await keep('one', 'base', solved(50))
  await keep('one', 'rl', solved(20))
  await keep('one', 'dapo-1-0003', solved(3))
  await keep('two', 'nightly', solved(49))
  await keep('other', 'nightly', { ...solved(49), extra: [1] })
  await keep(
    'lost',
    'nightly',
    Object.fromEntries(Object.keys(solved(0)).map((id, index) => [id, [index < 50 ? 1 : 'infra']])),
  )
})

after(() => close())

function solved(count: number): Record<string, Attempt[]> {
  return Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`task-${index}`, [index < count ? 1 : 0]]))
}

async function keep(run: string, name: string, attempts: Record<string, Attempt[]>): Promise<void> {
  const tasks = Object.entries(attempts).map(([taskId, attempts]) => ({ taskId, repo: `repo-${taskId}`, attempts }))
  await store.putRecord(runKeys.evaluation(run, name), makeEvaluation({ run, name, tasks }))
}

/** The command as a process whose reader closes the stream before anything is in it, as `| head` and `| grep -q` may. */
async function readerGone(stream: 'stdout' | 'stderr', args: string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const bin = fileURLToPath(new URL('../../../bin/longhaul.mjs', import.meta.url))
  const child = spawn(process.execPath, [bin, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', stream === 'stdout' ? 'pipe' : 'ignore', stream === 'stderr' ? 'pipe' : 'ignore'],
  })
  child[stream]?.destroy()
  const [exitCode] = (await once(child, 'exit')) as [number]
  return exitCode
}

const compare = (...args: string[]) => longhaul('compare', ...args)

test('a proven regression ends with 4 and says both bounds', async () => {
  const { exitCode, stdout } = await compare('one:base', 'one:rl', '--max-regression', '0.05')
  assert.equal(exitCode, 4)
  assert.match(stdout, /regression proven: delta\.upper −0\.\d+ < −0\.050 \(difference −0\.500, 95 % interval/)
  assert.match(stdout, /McNemar exact p/)
  assert.match(stdout, /^task-20 +1 of 1 +0 of 1 +worse$/m)
  assert.match(stdout, /with one attempt a task \(or unequal numbers\) there are no runs to compare/)
})

test('a proven regression ends with 4 also where nobody reads the output or the warnings any more', async () => {
  const args = ['compare', 'one:base', 'one:rl', '--max-regression', '0.05']
  assert.equal(await readerGone('stdout', args), 4)
  // A misspelt variable is a line on stderr before the work begins.
  assert.equal(await readerGone('stderr', args, { LONGHAUL_ARTIFACTZ: 'x' }), 4)
})

test('not proven either way: 0 with "cannot exclude", 3 when strict', async () => {
  const rule = ['one:base', 'two', '--max-regression', '0.02']
  const lenient = await compare(...rule)
  assert.equal(lenient.exitCode, 0)
  assert.match(lenient.stdout, /cannot exclude a regression of more than 0\.02/)
  const strict = await compare(...rule, '--strict')
  assert.equal(strict.exitCode, 3)
  assert.match(strict.stdout, /cannot exclude .*; strict\)/)
})

test('the power hint asks for more tasks only where those at hand are too few', async () => {
  const proven = await compare('one:base', 'one:rl')
  assert.match(
    proven.stdout,
    /to settle a true difference of −0\.500: so many tasks and attempts suffice, with 80 % chance/,
  )
  const open = await compare('one:base', 'two')
  assert.match(open.stdout, /to settle a true difference of −0\.017: .* \d+ tasks with the current attempts/)
  assert.doesNotMatch(open.stdout, /\b1 attempts/)
})

test('two sides that differ by the same at every task have no spread, so the hint names no smallest difference', async () => {
  const { stdout } = await compare('one:base', 'one:base')
  assert.match(stdout, /power: 60 tasks × 1 with one difference leave no spread to tell which one they would show/)
  const { comparison } = JSON.parse((await compare('one:base', 'one:base', '--json')).stdout) as {
    comparison: { power: { smallest: number | null } }
  }
  assert.equal(comparison.power.smallest, null)
})

test('the sides’ SEM is explained also where only the later one is over tasks', async () => {
  const twice = Object.fromEntries(
    Object.keys(solved(0)).map((id, at): [string, Attempt[]] => [id, at < 9 ? [1, 0] : [0, 0]]),
  )
  await keep('twice', 'base', twice)
  await keep('twice', 'rl', { ...twice, 'task-3': [1, 'infra'] })
  const { stdout } = await compare('twice:base', 'twice:rl', '--min-graded', '0.9')
  assert.match(stdout, /SEM over tasks: with one attempt a task \(or unequal numbers\)/)
})

test('strict says nothing without a limit, so it is refused', async () => {
  const { exitCode, stderr } = await compare('one:base', 'two', '--strict')
  assert.equal(exitCode, 1)
  assert.match(stderr, /Expected --max-regression beside --strict/)
})

test('a regression that is excluded passes also when strict', async () => {
  const { exitCode, stdout } = await compare('one:rl', 'one:base', '--max-regression', '0.02', '--strict')
  assert.equal(exitCode, 0)
  assert.match(stdout, /no such regression: delta\.lower \+0\.\d+ ≥ −0\.020/)
})

test('a demanded gain is judged by the lower bound', async () => {
  assert.equal((await compare('one:rl', 'one:base', '--min-difference', '0.2')).exitCode, 0)
  const missed = await compare('one:rl', 'one:base', '--min-difference', '0.49')
  assert.equal(missed.exitCode, 3)
  assert.match(missed.stdout, /threshold missed: delta\.lower/)
})

test('without rules the comparison is shown and ends with 0; RUN alone is its last evaluation', async () => {
  const { exitCode, stdout } = await compare('one', 'one:dapo-1-0003', '--json')
  assert.equal(exitCode, 0)
  const done = JSON.parse(stdout) as { before: { name: string }; comparison: { worse: number }; verdicts: string[] }
  // Not the one on the way, though its name sorts later.
  assert.equal(done.before.name, 'rl')
  assert.equal(done.comparison.worse, 17)
  assert.deepEqual(done.verdicts, [])
})

test('other tasks are refused with counts, and compared only on demand', async () => {
  const refused = await compare('two', 'other')
  assert.equal(refused.exitCode, 1)
  assert.match(refused.stderr, /0 are only before, 1 only after\. --intersect/)
  const shared = await compare('two', 'other', '--intersect')
  assert.equal(shared.exitCode, 0)
  assert.match(shared.stdout, /left out: 0 tasks only before, 1 only after, 0 that one side could not score/)
})

test('too little graded on a side: 2 and no verdict, also where a regression would be proven', async () => {
  const { exitCode, stdout } = await compare('one:base', 'lost', '--max-regression', '0')
  assert.equal(exitCode, 2)
  assert.match(stdout, /too little was graded in nightly of lost: 83\.3 % < 95\.0 %; no verdict/)
  assert.equal((await compare('one:base', 'lost', '--min-graded', '0.5')).exitCode, 0)
})

test('a copy of a record is a baseline; an edited copy is refused', async () => {
  const file = join(root, 'baseline.json')
  const bytes = await readFile(store.path(runKeys.evaluation('one', 'base')))
  await writeFile(file, bytes)
  assert.equal((await compare(file, 'one:rl', '--max-regression', '0.1')).exitCode, 4)
  await writeFile(file, bytes.toString().replace('"outcomes":[1]', '"outcomes":[0]'))
  const edited = await compare(file, 'one:rl')
  assert.equal(edited.exitCode, 2)
  assert.match(edited.stderr, /Artifact\.Corrupt/)
})

test('unknown names say what there is', async () => {
  const evaluation = await compare('one:sft', 'one:rl')
  assert.equal(evaluation.exitCode, 1)
  assert.match(evaluation.stderr, /one of base, dapo-1-0003, rl; got "sft"/)
  const run = await compare('absent', 'one:rl')
  assert.equal(run.exitCode, 1)
  assert.match(run.stderr, /No run called "absent" is in the artifact store/)
  assert.match((await compare('ona', 'one:rl')).stderr, /did you mean one\?/)
  assert.match((await compare(':rl', 'one')).stderr, /Expected RUN, RUN:EVALUATION or FILE\.json; .*, got ":rl"/)
  const report = await longhaul('report', 'absent')
  assert.equal(report.exitCode, 1)
  assert.match(report.stderr, /No run called "absent" is in the artifact store/)
})

test('HTML and Markdown hold the same verdict, without script and without markup from names', async () => {
  await keep('<b>|`x', 'nightly', solved(20))
  const [html, markdown, foreign] = [join(root, 'c.html'), join(root, 'c.md'), join(root, 'foreign.json')]
  // No run of this store can have such a name, but a file from elsewhere may state it.
  await copyFile(store.path(runKeys.evaluation('<b>|`x', 'nightly')), foreign)
  await compare('one:base', foreign, '--max-regression', '0.05', '--html', html, '--markdown', markdown)
  const page = await readFile(html, 'utf8')
  assert.match(page, /regression proven: delta\.upper/)
  assert.doesNotMatch(page, /<script|<b>|https?:/)
  const text = await readFile(markdown, 'utf8')
  assert.match(text, /\*\*regression proven: delta\.upper/)
  assert.match(text, /nightly of &lt;b>\\\|\\`x/)
})

test('a hint of proof needs enough tasks: three lost of three are not proven', () => {
  const of = (attempt: Attempt) =>
    makeEvaluation({ tasks: ['a', 'b', 'c'].map((taskId) => ({ taskId, repo: taskId, attempts: [attempt] })) })
  const [before, after] = [of(1), of(0)]
  const comparison = compareEvaluations({ before: before.tasks, after: after.tasks })
  const rules = { maxRegression: 0, minDifference: null, strict: false, minGraded: 0.95 }
  const [finding, ...others] = judgeComparison({ before, after, comparison }, rules)
  assert.deepEqual([finding?.code, finding?.isOpen, others], [0, true, []])
  assert.match(finding?.text ?? '', /cannot exclude/)
})
