/**
 * Evaluations in CI, against a whole stack: the jobs of our example files, step by step, with the variables and files of their systems.
 * A job knows Temporal's address and nothing else of the stack: no artifact store, no home of it.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { access, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'
import { sealRecord } from '../../src/adapters/artifacts/store-rules.ts'
import { findRun, readEvaluation } from '../../src/client/index.ts'
import type { EvaluatedTask, EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import { faultsOfJUnit, parseXml, type XmlElement } from '../support/ci/junit-schema.ts'
import { type RanJob, runGithubJob, runGitlabJob } from '../support/ci/run-job.ts'
import { eventually } from '../support/hang.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { endRun } from '../support/run-recipe.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const GITHUB = await readFile(join(root, 'infra/ci/github-workflow.yml'), 'utf8')
const GITLAB = await readFile(join(root, 'infra/ci/gitlab-ci.yml'), 'utf8')
/** Few, and enough to prove a difference of all of them. */
const TASKS = 8
/** Commits of this process's own, so that a stack that is used twice has no run of them. */
const commit = (number: number): string =>
  `${process.pid.toString(16).padStart(8, 'a')}${String(number).padStart(32, '0')}`

let world: PipelineWorld
let workspace: string
let machine: Record<string, string>
const runs = new Set<string>()

before(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'longhaul-ci-'))
  if (needsStack !== false) return
  world = await attachWorld()
  const { temporalAddress, namespace } = world.stack
  machine = {
    PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
    HOME: workspace,
    LONGHAUL_HOME: join(workspace, 'no-stack'),
    TEMPORAL_ADDRESS: temporalAddress,
    TEMPORAL_NAMESPACE: namespace,
  }
  // One turn is too little for any task, so that the score is the same 0 every time.
  const recipe = parse(await readFile(join(root, 'recipes/mini.yaml'), 'utf8')) as Record<string, object>
  await mkdir(join(workspace, 'ci'))
  await cp(join(root, 'infra/ci'), join(workspace, 'infra/ci'), { recursive: true })
  await writeFile(
    join(workspace, 'ci/tiny.yaml'),
    stringify({
      ...recipe,
      model: { base: join(root, 'policies/demo-base/model') },
      data: {
        ...recipe['data'],
        heldOut: { kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'eval', count: TASKS },
      },
      evaluate: { ...recipe['evaluate'], tasks: TASKS, attempts: 1, maxTurns: 1, policy: 'base' },
      rft: null,
      reinforce: null,
    }),
  )
})

after(async () => {
  await Promise.all([...runs].map((workflowId) => endRun({ connection: world.connection, workflowId })))
  await world?.close()
  await rm(workspace, { recursive: true, force: true })
})

interface Asked {
  commit: number
  attempt?: number
  vars?: Record<string, string>
  needs?: Record<string, unknown>
  onStart?: (pid: number) => void
}

/** One job of the example for GitHub. */
async function github(
  job: 'gate' | 'start' | 'judge',
  { commit: number, attempt = 1, vars = {}, needs = {}, onStart }: Asked,
): Promise<RanJob> {
  const isGate = job === 'gate'
  const ran = await runGithubJob({
    file: GITHUB,
    job,
    workspace,
    repository: workspace,
    machine,
    ...(onStart === undefined ? {} : { onStart }),
    contexts: {
      github: {
        sha: commit(number),
        repository: 'acme/agents',
        run_id: String(number),
        run_attempt: String(attempt),
        job,
        ref: 'refs/heads/main',
        server_url: 'https://github.example',
        event_name: isGate ? 'pull_request' : 'workflow_dispatch',
        event: isGate
          ? { pull_request: { head: { repo: { full_name: 'acme/agents' } } } }
          : { inputs: { recipe: 'ci/tiny.yaml' } },
      },
      vars: {
        TEMPORAL_ADDRESS: machine['TEMPORAL_ADDRESS'] ?? '',
        TEMPORAL_NAMESPACE: machine['TEMPORAL_NAMESPACE'] ?? '',
        LONGHAUL_COMMAND: `node ${join(root, 'bin/longhaul.mjs')}`,
        LONGHAUL_RECIPE: 'ci/tiny.yaml',
        ...vars,
      },
      needs,
    },
  })
  return ran
}

const logOf = ({ steps }: RanJob): string => steps.map(({ name, log }) => `${name}\n${log}`).join('\n')
const commandsIn = (log: string): string[] => log.split('\n').filter((line) => line.startsWith('::'))

interface Done {
  exitCode: number
  verdict: string
  verdicts: { code: number; text: string }[]
  graded: number
}

async function resultOf(directory: string): Promise<{ workflowId: string; attached: boolean; done: Done }> {
  const lines = (await readFile(join(directory, 'longhaul-out/result.jsonl'), 'utf8')).trim().split('\n')
  const records = lines.map((line) => JSON.parse(line) as { event: string; workflowId: string; attached: boolean })
  const launch = records.find(({ event }) => event === 'launch')
  assert.ok(launch, lines.join('\n'))
  runs.add(launch.workflowId)
  return { ...launch, done: records.at(-1) as unknown as Done }
}

async function junitOf(directory: string): Promise<XmlElement> {
  const xml = await parseXml('python3', join(directory, 'longhaul-out/junit.xml'))
  assert.deepEqual(faultsOfJUnit(xml), [])
  return xml
}

/** The record of the run, as a baseline file whose outcomes are these. */
async function writeBaseline(
  file: string,
  workflowId: string,
  change: (record: EvaluationRecord) => Partial<EvaluationRecord>,
): Promise<void> {
  const { evaluation } = await readEvaluation({ connection: world.connection, run: workflowId.replace('eval/', '') })
  await writeFile(join(workspace, file), sealRecord({ ...evaluation, ...change(evaluation) }))
}

let evaluated = ''

test('GitHub, pull request: the gate needs only Temporal and leaves a verdict, JUnit report and page', {
  skip: needsStack,
}, async () => {
  const ran = await github('gate', { commit: 1, vars: { LONGHAUL_THRESHOLD: 'pass@1.upper>=0.1' } })
  assert.equal(ran.exitCode, 0, logOf(ran))
  const { workflowId, attached, done } = await resultOf(workspace)
  evaluated = workflowId
  assert.deepEqual([attached, done.exitCode, done.graded], [false, 0, 1])
  assert.match(workflowId, /^eval\/tiny-ci-[0-9a-f]{12}-[0-9a-f]{10}$/)
  assert.match(done.verdict, /^threshold met: pass@1\.upper/)

  const xml = await junitOf(workspace)
  const cases = xml.children.flatMap(({ children }) => children.filter(({ tag }) => tag === 'testcase'))
  assert.deepEqual(
    cases.map(({ children }) => children[0]?.tag),
    [...Array.from({ length: TASKS }, () => 'failure'), 'system-out'],
  )
  assert.match(cases[0]?.children[1]?.text ?? '', /^resolved 0 of 1 graded attempts.*\nattempt 0: unresolved/)
  assert.match(ran.summary, /✅ Longhaul: done, and every rule holds \(exit 0\)/)
  assert.match(ran.summary, /\| pass@1 ± SEM \| 0\.000 ± 0\.000 \|/)
  assert.deepEqual(commandsIn(logOf(ran)), [])
  assert.deepEqual(
    ran.left.map((left) => left.replace(/@.*/, '')),
    ['actions/checkout', 'actions/setup-node', 'Install Longhaul', 'actions/upload-artifact'],
  )

  const { memo } = await world.connection.client.workflow.getHandle(workflowId).describe()
  assert.equal(memo?.['commit'], commit(1))
  await assert.rejects(access(join(workspace, 'no-stack')), 'the job made a store of its own')
})

test('GitHub, job repeated: it reports its earlier run and applies other rules to it', {
  skip: needsStack,
}, async () => {
  const before = await world.connection.client.workflow.getHandle(evaluated).describe()
  const ran = await github('gate', { commit: 1, attempt: 2, vars: { LONGHAUL_THRESHOLD: 'pass@1.lower>=0.9' } })
  assert.equal(ran.exitCode, 3, logOf(ran))
  const { workflowId, attached } = await resultOf(workspace)
  assert.deepEqual([workflowId, attached], [evaluated, true])
  const again = await world.connection.client.workflow.getHandle(evaluated).describe()
  assert.equal(again.runId, before.runId)
  assert.match(ran.summary, /❌ Longhaul: a threshold was missed \(exit 3\)/)
  assert.match(
    commandsIn(logOf(ran)).join('\n'),
    /^::error title=Longhaul%3A exit 3::threshold missed: pass@1\.lower 0\.000 < 0\.9/,
  )
})

test('GitHub, nightly: one job starts the run, another one waits for it and proves a regression', {
  skip: needsStack,
}, async () => {
  const start = await github('start', { commit: 2 })
  assert.equal(start.exitCode, 0, logOf(start))
  const { workflowId } = await resultOf(workspace)
  assert.deepEqual(start.outputs, { run: workflowId })
  assert.notEqual(workflowId, evaluated)
  await writeBaseline('all.json', evaluated, ({ tasks }) => ({
    tasks: tasks.map((task) => ({ ...task, outcomes: [1] })),
  }))
  const judge = await github('judge', {
    commit: 2,
    needs: { start: { outputs: start.outputs } },
    vars: { LONGHAUL_BASELINE: 'all.json', LONGHAUL_MAX_REGRESSION: '0.02' },
  })
  assert.equal(judge.exitCode, 4, logOf(judge))
  assert.match(judge.summary, /a regression is proven \(exit 4\)/)
  assert.match(judge.summary, /\| 1 of 1 \| 0 of 1 \| \*\*worse\*\* \|/)
  const commands = commandsIn(logOf(judge))
  assert.equal(commands.length, 8, commands.join('\n'))
  assert.match(commands[0] ?? '', /^::error .*regression proven/)
  assert.match(commands[7] ?? '', /^::notice .*2 more in the summary/)
  assert.ok(judge.left.includes('Say why there is no verdict'))
  await junitOf(workspace)
})

test('GitLab: a merge request, the repeated job and a nightly run in two jobs', { skip: needsStack }, async () => {
  const variables = (pipeline: number, job: number): Record<string, string> => ({
    CI_COMMIT_SHA: commit(3),
    CI_PROJECT_PATH: 'acme/agents',
    CI_PIPELINE_ID: String(pipeline),
    CI_JOB_ID: String(job),
    INPUT_RECIPE: 'ci/tiny.yaml',
    INPUT_LONGHAUL: `node ${join(root, 'bin/longhaul.mjs')}`,
  })
  const run = (job: string, more: Record<string, string>): Promise<RanJob> =>
    runGitlabJob({ file: GITLAB, job, workspace, repository: workspace, machine, variables: more })
  const gate = await run('gate', variables(1, 1))
  assert.equal(gate.exitCode, 0, logOf(gate))
  const first = await resultOf(workspace)
  await junitOf(workspace)
  assert.match(await readFile(join(workspace, 'longhaul-out/summary.md'), 'utf8'), /exit 0/)

  const again = await run('gate', { ...variables(1, 2), INPUT_MIN_GRADED: '1', INPUT_THRESHOLD: 'pass@1.lower>=1' })
  assert.equal(again.exitCode, 3, logOf(again))
  assert.equal((await resultOf(workspace)).workflowId, first.workflowId)

  const start = await run('start', variables(2, 3))
  assert.equal(start.exitCode, 0, logOf(start))
  const { workflowId } = await resultOf(workspace)
  assert.notEqual(workflowId, first.workflowId)
  assert.equal(start.outputs['LONGHAUL_RUN'], workflowId)
  const judge = await run('judge', { ...variables(2, 4), ...start.outputs })
  assert.equal(judge.exitCode, 0, logOf(judge))
  assert.equal((await resultOf(workspace)).done.exitCode, 0)
})

interface Ended {
  exitCode: number | null
  stdout: string
  stderr: string
}

/** The command as a job runs it. */
function longhaul(
  args: string[],
  env: Record<string, string> = {},
  watch: (stderr: string, pid: number) => void = () => {},
): Promise<Ended> {
  const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), ...args], {
    cwd: workspace,
    env: { ...machine, CI: 'true', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => (stdout += String(data)))
  child.stderr.on('data', (data) => {
    stderr += String(data)
    watch(stderr, child.pid ?? 0)
  })
  return new Promise((resolve) => child.once('close', (exitCode) => resolve({ exitCode, stdout, stderr })))
}

/** Its only attempt was lost: every list over attempts is empty. */
function withoutAttempts(task: EvaluatedTask): EvaluatedTask {
  const empty = Object.entries(task).map(([name, value]) => [name, Array.isArray(value) ? [] : value])
  return { ...(Object.fromEntries(empty) as EvaluatedTask), lost: 1 }
}

test('the command ends with the documented exit code for each question about a run', { skip: needsStack }, async () => {
  await writeBaseline('same.json', evaluated, () => ({}))
  await writeBaseline('lost.json', evaluated, ({ tasks }) => ({
    tasks: tasks.map((task, index) => (index % 2 === 0 ? task : withoutAttempts(task))),
  }))
  await writeBaseline('other.json', evaluated, ({ tasks }) => ({
    tasks: tasks.map((task) => ({ ...task, rowHash: 'f'.repeat(64) })),
  }))
  const handle = await world.connection.client.workflow.start('evaluate', {
    taskQueue: 'nothing-serves-it',
    workflowId: `eval/never-${process.pid}`,
    args: [{}],
  })
  await handle.terminate('by the test')
  const table: [expected: number, run: string, options: string[], says: RegExp][] = [
    [0, evaluated, [], /pass@1 0\.000/],
    [0, evaluated, ['--threshold', 'pass@1.lower>=0'], /threshold met/],
    [0, evaluated, ['--baseline', 'same.json', '--max-regression', '0.02'], /cannot exclude|no such regression/],
    [0, evaluated, ['--baseline', evaluated.replace('eval/', ''), '--max-regression', '1'], /no such regression/],
    [1, evaluated, ['--max-regression', '0.02'], /--baseline/],
    [1, evaluated, ['--threshold', 'pass@1>=0.5'], /pass@1\.lower/],
    [1, evaluated, ['--baseline', 'nowhere.json'], /nowhere\.json/],
    [1, evaluated, ['--baseline', 'no-such-run'], /no-such-run/],
    [1, evaluated, ['--baseline', `${evaluated.replace('eval/', '')}:nope`], /one of .*nope/],
    [1, evaluated, ['--junit', '/dev/null/junit.xml'], /--junit .*\/dev\/null/],
    [1, 'eval/never-there', [], /No run is called/],
    [2, `eval/never-${process.pid}`, [], /terminated: by the test/],
    [2, evaluated, ['--baseline', 'lost.json'], /too little was graded/],
    [2, evaluated, ['--baseline', 'other.json'], /not compared with the baseline/],
    [3, evaluated, ['--threshold', 'pass@1.lower>=0.01'], /threshold missed/],
    [3, evaluated, ['--baseline', 'same.json', '--max-regression', '0.01', '--strict'], /cannot exclude/],
    [4, evaluated, ['--baseline', 'all.json', '--max-regression', '0.02'], /regression proven/],
    [3, evaluated, ['--baseline', 'all.json', '--threshold', 'pass@1.lower>=0.01'], /regression proven/],
  ]
  for (const [expected, run, options, says] of table) {
    const { exitCode, stdout, stderr } = await longhaul(['wait', run, ...options])
    assert.equal(exitCode, expected, `${options.join(' ')}\n${stdout}${stderr}`)
    assert.match(stdout + stderr, says, options.join(' '))
  }
  const unreachable = await longhaul(['wait', evaluated], { TEMPORAL_ADDRESS: '127.0.0.1:1' })
  assert.equal(unreachable.exitCode, 2, unreachable.stderr)
})

/** The story: two jobs of one commit share a run. One of them is cancelled, which cancels the run, while the other still waits. */
test('a cancelled job ends with 130 and its report; the job that shares the run continues it', {
  skip: needsStack,
}, async () => {
  const env = {
    GITHUB_ACTIONS: 'true',
    GITHUB_SHA: commit(4),
    GITHUB_REPOSITORY: 'acme/agents',
    GITHUB_RUN_ID: '4',
    GITHUB_SERVER_URL: 'https://github.example',
  }
  const args = ['evaluate', '--recipe', 'ci/tiny.yaml', '--seed', '9', '--set', 'evaluate.attempts=3', '--json']
  let [pid, isCancelled] = [0, false]
  const reports = ['--junit', 'cancelled.xml', '--summary', 'cancelled.md']
  const started = Promise.withResolvers<void>()
  const first = longhaul([...args, ...reports], { ...env, GITHUB_JOB: 'one' }, (stderr, own) => {
    pid = own
    if (stderr.includes('started eval/')) started.resolve()
  })
  await started.promise
  const second = longhaul(args, { ...env, GITHUB_JOB: 'two' }, (stderr) => {
    if (isCancelled || !stderr.includes('joined eval/')) return
    isCancelled = true
    process.kill(pid, 'SIGTERM')
  })
  const [one, two] = await Promise.all([first, second])
  assert.equal(one.exitCode, 130, one.stderr)
  assert.match(await readFile(join(workspace, 'cancelled.md'), 'utf8'), /interrupted \(exit 130\)/)
  assert.deepEqual(faultsOfJUnit(await parseXml('python3', join(workspace, 'cancelled.xml'))), [])
  assert.match(two.stderr, /CI job github 4\.1\.one was interrupted .*goes on from its records/)
  assert.equal(two.exitCode, 0, two.stderr)
  const { workflowId } = JSON.parse(two.stdout.split('\n')[0] ?? '') as { workflowId: string }
  runs.add(workflowId)
  await eventually(async () =>
    assert.equal((await findRun({ connection: world.connection, run: workflowId })).status, 'COMPLETED'),
  )
})
