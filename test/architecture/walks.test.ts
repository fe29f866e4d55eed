/** What a reader opens to follow one path. The aims and their reasons: docs/decisions/2026-11-22-rooms-by-purpose.md. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseModule, walk } from '../support/walk.ts'

const STORE = ['src/adapters/artifacts/directory-store.ts', ['createDirectoryStore']] as const
const POLICY = ['src/adapters/policy-server/client.ts', ['createPolicyClient']] as const

/** Where each path begins, by file. What an interface hides begins anew: the sandbox, the store, the policy server. */
const PATHS = {
  turn: [
    ['src/activities/episode/advance-episode.ts', ['advanceEpisode']],
    ['src/activities/episode/samplers.ts', ['createSamplers']],
    ['src/adapters/docker/sandbox/runner-pool.ts', ['runTurn']],
    ['src/adapters/docker/sandbox/runner-pool.ts', ['createRunnerPool']],
    ['src/adapters/docker/sandbox/container-access.ts', ['createContainerAccess']],
    ['src/adapters/policy-server/pool.ts', ['poolOf']],
    STORE,
    POLICY,
  ],
  update: [
    ['src/activities/run/plan-iteration.ts', ['planIteration']],
    ['src/activities/training/build-batch.ts', ['buildBatch']],
    ['src/adapters/trainer-job/job/job-spec.ts', ['prepareJob']],
    ['src/adapters/trainer-job/job/run-job.ts', ['runJob']],
    ['src/activities/training/follow-job.ts', ['followJob']],
    ['src/adapters/trainer-job/launchers/process-launcher.ts', ['createProcessLauncher']],
    ['src/activities/training/record-training.ts', ['recordTraining', 'recordJob']],
    ['src/activities/training/publish-policy.ts', ['publishPolicy']],
    STORE,
    POLICY,
  ],
  evaluation: [
    ['src/cli/commands/evaluate.ts', ['addEvaluate']],
    ['src/client/start.ts', ['startEvaluation']],
    ['src/workflows/evaluate.ts', ['evaluate']],
    ['src/activities/run/resolve-recipe.ts', ['resolveRecipe']],
    ['src/activities/evaluation/prepare-suite.ts', ['prepareSuite']],
    ['src/activities/gate/gate-task.ts', ['gateTask']],
    ['src/activities/gate/close-gate.ts', ['closeGate']],
    ['src/activities/training/policies.ts', ['resolvePolicy']],
    ['src/activities/training/publish-policy.ts', ['publishPolicy']],
    ['src/activities/evaluation/derive-evaluation.ts', ['deriveEvaluation']],
    ['src/activities/evaluation/write-report.ts', ['writeReport']],
    STORE,
  ],
} as const

/** More files than this are a reason to join two, or to write the reason for a higher number into the record. */
const MOST = { turn: 38, update: 70, evaluation: 197 }

for (const [path, starts] of Object.entries(PATHS) as [keyof typeof PATHS, (typeof PATHS)['turn']][]) {
  test(`one ${path} passes at most ${MOST[path]} files`, (t) => {
    const files = walk(starts.flatMap(([file, names]) => names.map((name) => ({ file, name }))))
    const from = [...files].map(([file, importer]) => `${file} ← ${importer ?? 'start'}`).toSorted()
    t.diagnostic(`${files.size} files`)
    assert.ok(files.size > 20, 'the walk found no further file')
    assert.ok(files.size <= MOST[path], `${files.size} files:\n${from.join('\n')}`)
  })
}

const SOURCES: Record<string, string> = {
  'src/a.ts': `import { b, type B } from './b.ts'
import type { C } from './c.ts'
import * as d from './d.ts'
import { key } from './contracts/keys.ts'

export function begin(c: C): B {
  return { ...unused(), [key]: c }
}

const unused = () => begin.b

function other() {
  return [b, d.one]
}
`,
  'src/b.ts': `export { b } from './e.ts'\n`,
  'src/d.ts': `export const one = 1\n`,
  'src/e.ts': `// from f\nimport { f } from './f.ts'\nexport const b = async () =>\n  f()\n`,
  'src/f.ts': `export function f() {}\n`,
}
const walkSources = (name: string) => [...walk([{ file: 'src/a.ts', name }], (file) => SOURCES[file] ?? '').keys()]

test('a walk follows the names that a function uses, but not types, contracts or members', () => {
  assert.deepEqual(walkSources('begin'), ['src/a.ts'])
  assert.deepEqual(walkSources('other'), ['src/a.ts', 'src/b.ts', 'src/d.ts', 'src/e.ts', 'src/f.ts'])
})

test('refuses a walk from a name that its file does not declare', () => {
  assert.throws(() => walkSources('gone'), /src\/a\.ts declares no gone/)
})

test('finds declarations behind comments and in destructured constants', () => {
  const { declarations } = parseModule(
    'src/a.ts',
    `/** x */\nexport const { left, right } = both()\nabstract class Third {}\n`,
  )
  assert.deepEqual([...declarations.keys()], ['left', 'right', 'Third'])
})
