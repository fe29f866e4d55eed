/** Ways to start a run, ways in which a start goes wrong, and the clock that starts runs: against a whole stack. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { newestPromotion, promote } from '../../src/activities/training/policies.ts'
import { newFileDiff, synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { cancelRun, triggerSchedule } from '../../src/client/index.ts'
import { type RunOutcome, toOutcome } from '../../src/client/watch-run.ts'
import type { FailureCode } from '../../src/contracts/failure-codes.ts'
import { policyKeys } from '../../src/contracts/keys.ts'
import type { EvaluateResult, TrainAgentInput, TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { startRecordingProxy } from '../support/recording-proxy.ts'
import { attemptsOf, fetchRunHistories } from '../support/run-histories.ts'
import { endRun, runNameOf, runRecipe, waitForPhase } from '../support/run-recipe.ts'
import { leftBehind } from '../support/run-records.ts'
import { startTestRegistry } from '../support/test-registry.ts'
import { temporalCli } from '../support/temporal-cli.ts'
import { withDeadline } from '../support/with-deadline.ts'
import { freePort } from '../support/loopback.ts'
import { writePartitions } from '../support/write-partitions.ts'
import { HANG_MS } from '../support/hang.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Two held-out tasks and no training: as little as a run can be. */
const TINY = { data: { heldOut: { count: 2 } }, evaluate: { tasks: 2 }, rft: null, reinforce: null }

let world: PipelineWorld
let scratch: string
const started: string[] = []

before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'longhaul-starting-'))
  if (needsStack === false) world = await attachWorld()
})

after(async () => {
  await Promise.all(started.map((workflowId) => endRun({ connection: world.connection, workflowId })))
  await world?.close()
  await rm(scratch, { recursive: true, force: true })
})

test('the server of the stack writes the tasks of a queue to one partition', { skip: needsStack }, async () => {
  assert.equal(await writePartitions(world.connection), 1)
})

test('runs started from the Temporal CLI get readable names, and cancelled ones close their sandboxes', {
  skip: needsStack,
}, async () => {
  const { stack, connection } = world
  const temporal = await temporalCli(stack)
  assert.ok(temporal, 'the stack under test has no server of its own')
  const start = async (): Promise<string> => {
    const job = ['--type', 'trainAgent', '--task-queue', 'control', '--input', '{"recipe":"mini"}']
    const { workflowId } = await temporal('workflow', 'start', ...job)
    started.push(String(workflowId))
    return String(workflowId)
  }
  const ids = await Promise.all([start(), start()])
  // Both have their names once they gate; the tasks may be gated already.
  for (const workflowId of ids)
    await waitForPhase({ connection, workflowId, phase: /gating|publishing|evaluating/, limitMs: HANG_MS })
  const names = await Promise.all(ids.map((workflowId) => runNameOf({ connection, workflowId })))
  for (const name of names) assert.match(name, /^mini-\d{4}-\d{2}-\d{2}-[a-z]+$/)
  assert.equal(new Set(names).size, 2, names.join(', '))

  for (const [index, workflowId] of ids.entries()) {
    const [name = ''] = names.slice(index)
    await cancelRun({ connection, workflowId })
    assert.deepEqual(await endOf<TrainAgentResult>(workflowId, HANG_MS), { status: 'cancelled' })
    const children = (await fetchRunHistories(connection.client, workflowId)).slice(1)
    assert.ok(children.length > 0, 'the run was cancelled before it started a child')
    for (const child of children) assert.ok(child.workflowId.startsWith(`train/${name}/`), child.workflowId)
    await allClosed(children.map((child) => child.workflowId))
    assert.deepEqual(await leftBehind(world, name), [])
  }
})

const REFUSED: [string, TrainAgentInput, FailureCode, RegExp][] = [
  ['an unknown recipe', { recipe: 'minni' }, 'Config.NotFound', /did you mean mini/],
  ['text that is no YAML', { recipe: 'mini', recipeText: 'seed: [1' }, 'Config.Invalid', /line|1:/],
  ['an unknown key', { recipe: 'mini', recipeText: 'sead: 1\n' }, 'Config.Invalid', /sead/],
  [
    'training on a chat endpoint',
    { recipe: 'mini', overrides: { policyServer: { kind: 'chat' } } },
    'Config.Invalid',
    /token ids/,
  ],
  [
    'a model that is not there',
    { recipe: 'mini', overrides: { model: { base: 'no-such-model' } } },
    'Config.NotFound',
    /model\.base: no-such-model/,
  ],
  ['a run name that is no name', { recipe: 'mini', run: 'my run/1' }, 'Config.Invalid', /letters, digits/],
]

for (const [what, input, code, message] of REFUSED) {
  test(`a run that is started with ${what} fails at once with ${code} after one attempt`, {
    skip: needsStack,
  }, async () => {
    const { client } = world.connection
    // Not through the client's own checks: the Temporal UI has none.
    const workflowId = `refused/${what.replaceAll(' ', '-')}-${process.pid}`
    await client.workflow.start('trainAgent', { workflowId, taskQueue: 'control', args: [input] })
    started.push(workflowId)
    assertFailed(await endOf(workflowId, HANG_MS), code, message)
    const [history, ...children] = await fetchRunHistories(client, workflowId)
    assert.ok(history)
    assert.deepEqual([attemptsOf(history), children.length], [[1], 0])
  })
}

test('a run ends with Model.Unreachable after the timeout when no policy server listens', {
  skip: needsStack,
}, async () => {
  const overrides = { ...TINY, policyServer: { url: `http://127.0.0.1:${await freePort()}`, patienceS: 5 } }
  const { outcome } = await run({ recipe: 'mini', overrides }, HANG_MS)
  assertFailed(outcome, 'Model.Unreachable', /ECONNREFUSED.*policyServer\.url/s)
})

test('a run fails with Model.NoTokenIds without a second sandbox when the server ignores return_token_ids', {
  skip: needsStack,
}, async () => {
  const proxy = await startRecordingProxy({
    target: world.stack.policyUrl,
    rewrite: (body) => ({ ...body, return_token_ids: undefined }),
  })
  try {
    const { outcome, workflowId } = await run(
      { recipe: 'mini', overrides: { ...TINY, policyServer: { url: proxy.url } } },
      HANG_MS,
    )
    assertFailed(outcome, 'Model.NoTokenIds', /return_token_ids/)
    // Runs of the tests above hold names without holding the ids that go with them.
    assert.equal(workflowId, `train/${await runNameOf({ connection: world.connection, workflowId })}`)
    const histories = await fetchRunHistories(world.connection.client, workflowId)
    const placements = histories.flatMap((history) => attemptsOf(history, 'openSandbox'))
    assert.ok(placements.length <= 2, `${placements.length} sandboxes for two episodes`)
    const samples = histories.flatMap((history) => attemptsOf(history, 'advanceEpisode'))
    assert.ok(
      samples.every((attempt) => attempt === 1),
      `attempts ${samples.join(', ')}`,
    )
  } finally {
    await proxy.close()
  }
})

test('a run ends with Sandbox.ImageMissing before any gate when the registry lacks an image', {
  skip: needsStack,
}, async () => {
  const registry = await startTestRegistry()
  try {
    const path = join(scratch, 'missing.jsonl')
    const [good, other] = synthesizeSuite({ seed: 4, split: 'eval', count: 2, offset: 0 }).map(({ row }) => row)
    const image = `${registry.reference('never-published')}:1`
    const gone = { ...other, image_name: image, docker_image: image, meta: {} }
    await writeFile(path, `${JSON.stringify(good)}\n${JSON.stringify(gone)}\n`)
    const { outcome, workflowId } = await run({ recipe: 'mini-gone', recipeText: await recipeOfRows(path) }, HANG_MS)
    assertFailed(outcome, 'Sandbox.ImageMissing', /^1 of the 1 images of .*never-published:1.*longhaul images build/s)
    const [history, ...children] = await fetchRunHistories(world.connection.client, workflowId)
    assert.ok(history)
    assert.deepEqual([attemptsOf(history, 'checkImages'), children.length], [[5], 0])
  } finally {
    await registry.close()
  }
})

test('a run fails with Task.GateFailed and names the task when its gold patch does not resolve it', {
  skip: needsStack,
}, async () => {
  const path = join(scratch, 'rows.jsonl')
  const [good, other] = synthesizeSuite({ seed: 4, split: 'eval', count: 2, offset: 0 }).map(({ row }) => row)
  const broken = { ...other, patch: newFileDiff({ path: 'NOTES', lines: ['no repair'] }) }
  await writeFile(path, `${JSON.stringify(good)}\n${JSON.stringify(broken)}\n`)
  const { outcome } = await run({ recipe: 'mini-rows', recipeText: await recipeOfRows(path) }, HANG_MS)
  assertFailed(outcome, 'Task.GateFailed', /synthetic__eval-000001.*gold/s)
})

test('a schedule can be created, listed, triggered and deleted, and its run evaluates the newest promotion', {
  skip: needsStack,
}, async () => {
  const { store, connection } = world
  const promoted = await ensurePromotion()
  const id = `nightly-${process.pid}`
  const created = await longhaul('schedule', 'create', id, '--recipe', 'mini', '--json')
  try {
    assert.equal(created['kind'], 'created')
    const { schedules } = (await longhaul('schedule', 'list', '--json')) as { schedules: { id: string }[] }
    assert.ok(schedules.some((schedule) => schedule.id === id))
    const workflowId = await triggerSchedule({ connection, id })
    assert.match(workflowId ?? '', new RegExp(`^eval/${id}-`))
    started.push(workflowId ?? '')
    const outcome = await endOf<EvaluateResult>(workflowId ?? '', HANG_MS)
    assert.equal(outcome.status, 'completed', JSON.stringify(outcome))
    if (outcome.status === 'completed') {
      const { policy, tasks, run: name } = outcome.result
      assert.deepEqual([policy, tasks], [promoted, 8])
      assert.deepEqual(await leftBehind(world, name), [])
      assert.ok(await store.read(`runs/${name}/report/report.json`), 'the evaluation wrote no report')
    }
  } finally {
    assert.deepEqual(await longhaul('schedule', 'delete', id, '--json'), { id, changed: true })
  }
})

async function run(
  input: TrainAgentInput,
  limitMs: number,
): Promise<{ workflowId: string; outcome: RunOutcome<TrainAgentResult> }> {
  return runRecipe({
    connection: world.connection,
    input,
    limitMs,
    say: console.error,
    onStart: ({ workflowId }) => started.push(workflowId),
  })
}

/** How a workflow ends, by its id. */
function endOf<T>(workflowId: string, limitMs: number): Promise<RunOutcome<T>> {
  const result = world.connection.client.workflow.getHandle(workflowId).result() as Promise<T>
  return withDeadline(toOutcome(result), limitMs, `${workflowId} to end`)
}

function assertFailed(outcome: RunOutcome<unknown>, code: FailureCode, message: RegExp): void {
  assert.equal(outcome.status, 'failed', JSON.stringify(outcome))
  if (outcome.status !== 'failed') return
  assert.equal(outcome.code, code, outcome.message)
  assert.match(outcome.message, message)
}

/** Children are asked to end when their parent does; the innermost close their sandboxes first. */
async function allClosed(workflowIds: readonly string[]): Promise<void> {
  const { client } = world.connection
  let open = [...workflowIds]
  for (const deadline = Date.now() + HANG_MS; open.length > 0 && Date.now() < deadline; ) {
    const states = await Promise.all(
      open.map(async (id) => ({ id, state: (await client.workflow.getHandle(id).describe()).status.name })),
    )
    open = states.filter(({ state }) => state === 'RUNNING').map(({ id }) => id)
    if (open.length > 0) await sleep(500)
  }
  assert.deepEqual(open, [])
}

/** `mini` as text, evaluating the tasks of a file and training nothing. */
async function recipeOfRows(path: string): Promise<string> {
  const { recipe } = await loadRecipe({ name: 'mini', dirs: [join(root, 'recipes')], overrides: TINY })
  const { name: _, ...file } = recipe
  return JSON.stringify({ ...file, data: { ...recipe.data, heldOut: { kind: 'rows', path } } })
}

/** Version of the newest promoted policy; on a stack that never trained, the base is promoted first. */
async function ensurePromotion(): Promise<string> {
  const { store } = world
  if ((await store.list(policyKeys.promotions)).length === 0) {
    const { recipe } = await loadRecipe({ name: 'mini', dirs: [join(root, 'recipes')] })
    const policy = await importBasePolicy({ store, directory: join(root, 'recipes', recipe.model.base) })
    const score = { name: 'base', policy: policy.version, passAt1: 0, sem: 0, tasks: 1, attempts: 1 }
    await promote(store, { run: 'starting-test', policy, score })
  }
  return (await newestPromotion(store)).policy.version
}

async function longhaul(...args: string[]): Promise<Record<string, unknown>> {
  const command = [join(root, 'bin', 'longhaul.mjs'), ...args]
  const { stdout } = await promisify(execFile)(process.execPath, command, { timeout: HANG_MS })
  return JSON.parse(stdout) as Record<string, unknown>
}

/** A port that was free a moment ago. */
