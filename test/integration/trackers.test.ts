/** Metrics in the real MLflow server, in TensorBoard's own reader and in files of the package wandb: each point of the records once, equal in value, step and time. */
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import { readdir, stat, truncate } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { readTrackedRun } from '../../src/activities/trackers/read-tracked-run.ts'
import { createTracking } from '../../src/activities/trackers/send-metrics.ts'
import { createRecipeReader } from '../../src/activities/runtime/stored-records.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { MlflowRecipe, TrackedPoint, WandbRecipe } from '../../src/contracts/trackers.types.ts'
import { HANG_MS } from '../support/hang.ts'
import { longhaul, useOwnStore } from '../support/command-line.ts'
import { listenOnLoopback } from '../support/loopback.ts'
import {
  findTrackerPackages,
  findWandb,
  type MlflowServer,
  openEvents,
  readWandbFile,
  startMlflow,
} from '../support/trackers/packages.ts'
import { startWandbServer, syncWandb } from '../support/trackers/wandb-server.ts'
import { storeEvaluation, storeTrackedRun, storeTraining } from '../support/trackers/tracked-run.ts'

const packages = await findTrackerPackages()
const python = 'python' in packages ? packages.python : ''
const skip = 'skip' in packages ? packages.skip : false
const wandb = await findWandb()
const wandbPython = 'python' in wandb ? wandb.python : ''

let own: Awaited<ReturnType<typeof useOwnStore>>
let server: MlflowServer

before(async () => {
  own = await useOwnStore()
  if (skip === false) server = await startMlflow(python)
})
after(async () => {
  await own.close()
  if (skip === false) await server.stop()
})

const mlflowAt = (url: string): MlflowRecipe => ({ kind: 'mlflow', url, experiment: 'longhaul', tokenVariable: null })

/** As workers do it. @returns what was logged */
async function send(run: string, env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const { store } = own
  const logged: string[] = []
  const log = (line: string): void => void logged.push(line)
  await createTracking({ store, recipes: createRecipeReader(store), env, log, limitMs: HANG_MS })(
    run,
    new AbortController().signal,
  )
  return logged
}

async function pointsOf(run: string): Promise<TrackedPoint[]> {
  return (await readTrackedRun(own.store, run, { mayWrite: false })).points
}

/** A line for each point, so that a second one of a kind shows. */
const linesOf = (points: readonly TrackedPoint[]): string[] =>
  points.map(({ metric, step, value, atMs }) => `${metric} ${step} ${value} ${atMs}`).toSorted()

interface StoredRun {
  info: { run_id: string; run_name: string; status: string; start_time: number; end_time?: number }
  data: { metrics?: { key: string }[]; tags: { key: string; value: string }[] }
}

async function askMlflow<T>(path: string, body?: object): Promise<T> {
  const response = await fetch(`${server.url}/api/2.0/mlflow/${path}`, {
    signal: AbortSignal.timeout(HANG_MS),
    ...(body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  assert.equal(response.status, 200, path)
  return (await response.json()) as T
}

/** Runs that MLflow has of a run of ours. */
async function mlflowRuns(run: string): Promise<StoredRun[]> {
  const { experiment } = await askMlflow<{ experiment: { experiment_id: string } }>(
    'experiments/get-by-name?experiment_name=longhaul',
  )
  const body = { experiment_ids: [experiment.experiment_id], filter: `tags.\`longhaul.run\` = '${run}'` }
  return (await askMlflow<{ runs?: StoredRun[] }>('runs/search', body)).runs ?? []
}

/** Every value that MLflow keeps, not only the last of each metric. */
async function mlflowPoints(run: string): Promise<TrackedPoint[]> {
  const [only, ...others] = await mlflowRuns(run)
  assert.ok(only !== undefined && others.length === 0, `${others.length} further runs`)
  const points: TrackedPoint[] = []
  for (const { key } of only.data.metrics ?? []) {
    const query = new URLSearchParams({ run_id: only.info.run_id, metric_key: key })
    type History = { metrics: { value: number; step: string | number; timestamp: string | number }[] }
    const { metrics } = await askMlflow<History>(`metrics/get-history?${query.toString()}`)
    for (const { value, step, timestamp } of metrics)
      points.push({ metric: key, step: Number(step), value, atMs: Number(timestamp) })
  }
  return points
}

async function assertInMlflow(run: string): Promise<void> {
  const expected = await pointsOf(run)
  assert.ok(expected.length > 0)
  assert.deepEqual(linesOf(await mlflowPoints(run)), linesOf(expected))
}

describe('MLflow', { skip }, () => {
  test('a run that is sent repeatedly and out of order has each point once and is finished at its end', async () => {
    const run = 'whole'
    await storeTrackedRun(own.store, run, [mlflowAt(server.url)])
    await storeEvaluation(own.store, { run, name: 'base', globalStep: 0 })
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    assert.deepEqual(await send(run), [])
    await assertInMlflow(run)
    assert.deepEqual(await send(run), [])
    await assertInMlflow(run)

    await storeTraining(own.store, { run, iteration: 1, step: 3 })
    await storeEvaluation(own.store, { run, name: 'rl', globalStep: 4 })
    await send(run)
    // An older policy after the newer one, as a night does that evaluates every promotion.
    await storeEvaluation(own.store, { run, name: 'kept', globalStep: 2 })
    await send(run)
    await send(run)
    await assertInMlflow(run)

    const [open] = await mlflowRuns(run)
    assert.equal(open?.info.status, 'RUNNING')
    await own.store.putRecord(runKeys.durations(run, 1), { schema: 'longhaul.durations/1', durations: {} })
    await send(run)
    const [finished] = await mlflowRuns(run)
    const points = await pointsOf(run)
    assert.equal(finished?.info.status, 'FINISHED')
    assert.equal(finished.info.run_name, run)
    assert.deepEqual([finished.info.start_time, finished.info.end_time], [points[0]?.atMs, points.at(-1)?.atMs])
    const tags = Object.fromEntries(finished.data.tags.map(({ key, value }) => [key, value]))
    assert.equal(tags['longhaul.recipe'], 'test')
    assert.equal(tags['longhaul.id'], `${run}/execution-of-${run}`)
  })

  /** 1,800 points are two requests. The second one is lost on its way, or is done and its answer is lost. */
  for (const fate of ['never arrives', 'is done and its answer is lost'] as const) {
    test(`a second request that ${fate} is reported, and the next sending adds only what is missing`, async (t) => {
      const run = `half-way-${fate.length}`
      const proxy = await startProxy(t, fate === 'never arrives' ? 'drop' : 'forward')
      await storeTrackedRun(own.store, run, [mlflowAt(proxy)])
      await storeTraining(own.store, { run, iteration: 0, step: 1, steps: 600 })
      assert.match((await send(run)).join(), /answered 500/)
      assert.equal((await mlflowPoints(run)).length, fate === 'never arrives' ? 1000 : 1800)
      assert.deepEqual(await send(run), [])
      await assertInMlflow(run)
    })
  }

  test('two workers that send a run for the first time create one MLflow run with each point once', async () => {
    const run = 'together'
    await storeTrackedRun(own.store, run, [mlflowAt(server.url)])
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    const logged = await Promise.all([send(run), send(run), send(run)])
    assert.deepEqual(logged.flat(), [])
    await assertInMlflow(run)
  })

  test('longhaul track reports gaps and new points, and exits with 2 where a tracker refuses', async () => {
    const run = 'by-hand'
    const directory = join(own.root, 'by-hand')
    await storeTrackedRun(own.store, run, [mlflowAt(server.url), { kind: 'tensorboard', directory }])
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    const dry = await longhaul('track', run, '--dry-run')
    assert.match(
      dry.stdout,
      /^mlflow .*\(longhaul\): 6 of 6 points are missing there\ntensorboard .*: 6 of 6 points are missing/,
    )
    assert.deepEqual(await mlflowRuns(run), [])
    const first = await longhaul('track', run)
    assert.equal(first.exitCode, 0, first.stderr)
    assert.match(first.stdout, /mlflow .*: 6 of 6 points were new\ntensorboard .*: 6 of 6 points were new/)
    const again = JSON.parse((await longhaul('track', run, '--json')).stdout) as { trackers: object[] }
    assert.deepEqual(
      again.trackers.map((one) => ({ ...one, tracker: '' })),
      Array.from({ length: 2 }, () => ({ tracker: '', points: 6, sent: 0, problem: null })),
    )
    await assertInMlflow(run)

    const refusing = 'refused'
    await storeTrackedRun(own.store, refusing, [{ ...mlflowAt(server.url), experiment: 'gone' }])
    await storeTraining(own.store, { run: refusing, iteration: 0, step: 1 })
    const { experiment_id } = await askMlflow<{ experiment_id: string }>('experiments/create', { name: 'gone' })
    await askMlflow('experiments/delete', { experiment_id })
    const refused = await longhaul('track', refusing)
    assert.equal(refused.exitCode, 2)
    assert.match(refused.stdout, /0 of 6 points were new, not all: The experiment "gone" .* was deleted: restore it/)
  })
})

describe('TensorBoard', { skip }, () => {
  test('an open TensorBoard shows each point once in full precision while a run is sent repeatedly', async (t) => {
    const run = 'watched'
    const directory = join(own.root, 'tensorboard')
    await storeTrackedRun(own.store, run, [{ kind: 'tensorboard', directory }])
    await storeEvaluation(own.store, { run, name: 'base', globalStep: 0 })
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    await send(run)
    const events = openEvents(python, join(directory, run))
    t.after(() => events.stop())
    const assertRead = async (): Promise<void> => {
      const expected = (await pointsOf(run)).map((point) => ({ ...point, value: Math.fround(point.value) }))
      const read = Object.entries(await events.read()).flatMap(([metric, values]) =>
        values.map(([step, wallTime, value]) => ({ metric, step, value, atMs: Math.round(wallTime * 1000) })),
      )
      assert.ok(expected.length > 0)
      assert.deepEqual(linesOf(read), linesOf(expected))
    }
    await assertRead()
    await send(run)
    await assertRead()
    await storeTraining(own.store, { run, iteration: 1, step: 3 })
    await storeEvaluation(own.store, { run, name: 'rl', globalStep: 4 })
    await send(run)
    await assertRead()
  })
})

describe('Weights & Biases', { skip: 'skip' in wandb ? wandb.skip : false }, () => {
  const env = { LONGHAUL_WANDB_PYTHON: wandbPython }
  const wandbIn = (directory: string): WandbRecipe => ({ kind: 'wandb', project: 'agents', entity: 'team', directory })

  /** The one offline run of a run, as the package's commands find it. */
  async function fileOf(directory: string, run: string): Promise<string> {
    const folders = (await readdir(join(directory, 'wandb'))).filter((name) => name.includes(`-${run}-`))
    assert.match(folders.join(), /^offline-run-\d{8}_\d{6}-[^,]+$/)
    const folder = join(directory, 'wandb', folders[0] ?? '')
    const [file, ...others] = (await readdir(folder)).filter((name) => name.endsWith('.wandb'))
    assert.deepEqual(others, [])
    return join(folder, file ?? '')
  }

  function pointsOfRow({
    step = -1,
    _timestamp = -1,
    _step,
    _runtime,
    ...metrics
  }: Record<string, number>): TrackedPoint[] {
    const atMs = Math.round(_timestamp * 1000)
    return Object.entries(metrics).map(([metric, value]) => ({ metric, step, value, atMs }))
  }

  async function assertWritten(directory: string, run: string): Promise<void> {
    const expected = await pointsOf(run)
    assert.ok(expected.length > 0)
    const { history, ...file } = await readWandbFile(wandbPython, await fileOf(directory, run))
    assert.deepEqual(
      history.map(({ step }) => step),
      history.map((_, number) => number),
      'rows have their numbers, so a repeated upload puts each at its place',
    )
    assert.deepEqual(linesOf(history.flatMap(({ values }) => pointsOfRow(values))), linesOf(expected))
    assert.deepEqual([file.run.project, file.run.entity, file.run.display_name], ['agents', 'team', run])
    assert.equal(file.metrics['*'], 'step')
    assert.deepEqual(
      [file.config['run'], file.config['recipe'], file.config['recipeHash']],
      [run, 'test', 'ef'.repeat(32)],
    )
    assert.ok(file.isEnded)
  }

  test('a run that is sent repeatedly and out of order is one offline run with each point once in full precision', async () => {
    const run = 'offline'
    const directory = join(own.root, 'offline')
    await storeTrackedRun(own.store, run, [wandbIn(directory)])
    await storeEvaluation(own.store, { run, name: 'base', globalStep: 0 })
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    assert.deepEqual(await send(run, env), [])
    await assertWritten(directory, run)
    const file = await fileOf(directory, run)
    const before = await stat(file)
    assert.deepEqual(await send(run, env), [])
    assert.equal((await stat(file)).ino, before.ino, 'a whole file is left alone')

    await storeTraining(own.store, { run, iteration: 1, step: 3, steps: 600 })
    await storeEvaluation(own.store, { run, name: 'rl', globalStep: 4 })
    assert.deepEqual(await send(run, env), [])
    await storeEvaluation(own.store, { run, name: 'kept', globalStep: 2 })
    assert.deepEqual(await send(run, env), [])
    await assertWritten(directory, run)
    assert.deepEqual((await readdir(dirname(file))).toSorted(), ['longhaul.json', basename(file)].toSorted())
    assert.equal((await readdir(join(directory, 'wandb'))).length, 1, 'no temporary file of the write is left')
  })

  test('wandb sync uploads an open run repeatedly with each row at its place', async (t) => {
    const run = 'uploaded'
    const directory = join(own.root, 'uploaded')
    const receiver = await startWandbServer()
    t.after(() => receiver.close())
    const sync = () => syncWandb(wandbPython, { directory, url: receiver.url })
    await storeTrackedRun(own.store, run, [wandbIn(directory)])
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    await send(run, env)
    await sync()
    await sync()
    const first = receiver.uploads.splice(0)
    await storeTraining(own.store, { run, iteration: 1, step: 3 })
    await send(run, env)
    await sync()
    const second = receiver.uploads.splice(0)
    const expected = await pointsOf(run)
    for (const [uploads, points] of [
      [first, expected.slice(0, 6)],
      [second, expected],
    ] as const) {
      // A line of a history has its number: what is sent again from an offset on replaces what is there.
      const history = new Map(uploads.flatMap(({ offset, rows }) => rows.map((row, at) => [offset + at, row] as const)))
      assert.deepEqual(
        [...history.keys()],
        [...history.keys()].map((_, at) => at),
      )
      assert.deepEqual(linesOf([...history.values()].flatMap(pointsOfRow)), linesOf(points))
      for (const { run: of } of uploads) assert.match(of, /^team\/agents\/uploaded-[0-9a-f]{8}$/)
    }
  })

  test('concurrent senders and a truncated file leave one complete file after the next sending', async () => {
    const run = 'at-once'
    const directory = join(own.root, 'at-once')
    await storeTrackedRun(own.store, run, [wandbIn(directory)])
    await storeTraining(own.store, { run, iteration: 0, step: 1 })
    assert.deepEqual((await Promise.all([send(run, env), send(run, env)])).flat(), [])
    await assertWritten(directory, run)
    const file = await fileOf(directory, run)
    await truncate(file, 300)
    assert.deepEqual(await send(run, env), [])
    await assertWritten(directory, run)
  })
})

/** To the real server; of the second request that logs metrics the sender never hears. */
async function startProxy(t: TestContext, second: 'drop' | 'forward'): Promise<string> {
  let logged = 0
  const proxy = createServer((request, response) => {
    void (async () => {
      const isLost = request.url?.endsWith('/runs/log-batch') === true && (logged += 1) === 2
      const body = await bodyOf(request)
      if (isLost && second === 'drop') return response.writeHead(500).end()
      const answer = await fetch(`${server.url}${request.url}`, {
        method: request.method ?? 'GET',
        signal: AbortSignal.timeout(HANG_MS),
        headers: { 'content-type': 'application/json' },
        ...(request.method === 'GET' ? {} : { body }),
      })
      const text = await answer.text()
      return isLost ? response.writeHead(500).end() : response.writeHead(answer.status).end(text)
    })()
  })
  const port = await listenOnLoopback(proxy)
  t.after(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${port}`
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
