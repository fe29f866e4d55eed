/** Trackers that misbehave cost a sending its time and the run nothing; what one lacks comes with the next sending. */
import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { freePort, listenOnLoopback } from '../../../test/support/loopback.ts'
import { storeEvaluation, storeTrackedRun, storeTraining } from '../../../test/support/trackers/tracked-run.ts'
import type { MlflowRecipe, TrackerRecipe } from '../../contracts/trackers.types.ts'
import { createRecipeReader } from '../runtime/stored-records.ts'
import { readTrackedRun } from './read-tracked-run.ts'
import { createTracking } from './send-metrics.ts'

let own: Awaited<ReturnType<typeof useOwnStore>>
before(async () => {
  own = await useOwnStore()
})
after(() => own.close())

const signal = new AbortController().signal
const mlflowAt = (url: string, tokenVariable: string | null = null): MlflowRecipe => ({
  kind: 'mlflow',
  url,
  experiment: 'x',
  tokenVariable,
})

/** Sends what there is. @returns what was logged */
async function send(
  run: string,
  { limitMs = 60_000, env = {} }: { limitMs?: number; env?: NodeJS.ProcessEnv } = {},
): Promise<string[]> {
  const { store } = own
  const logged: string[] = []
  const log = (line: string): void => void logged.push(line)
  await createTracking({ store, recipes: createRecipeReader(store), env, log, limitMs })(run, signal)
  return logged
}

async function makeRun(run: string, trackers: readonly TrackerRecipe[]): Promise<void> {
  await storeTrackedRun(own.store, run, trackers)
  await storeTraining(own.store, { run, iteration: 0, step: 1 })
}

/** A server that is no MLflow. */
async function serve(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer(answer)
  const port = await listenOnLoopback(server)
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${port}`
}

const eventFiles = async (directory: string, run: string): Promise<string[]> =>
  (await readdir(join(directory, run))).map((name) => join(directory, run, name))

test('a failing tracker ends its sending with the reason, and the other tracker gets everything', async (t) => {
  let redirected = 0
  const elsewhere = await serve(t, (_, response) => {
    redirected += 1
    response.end('{}')
  })
  const cases: Record<string, [url: string, reason: RegExp]> = {
    hangs: [await serve(t, () => undefined), /not complete after 1 s/],
    absent: [`http://127.0.0.1:${await freePort()}`, /ECONNREFUSED/],
    broken: [await serve(t, (_, response) => response.writeHead(500).end()), /answered 500/],
    refuses: [
      await serve(t, (_, response) =>
        response.writeHead(403).end('{"error_code":"PERMISSION_DENIED","message":"a\\nb"}'),
      ),
      /answered 403 \(PERMISSION_DENIED: a b\); check that trackers\[\]\.tokenVariable/,
    ],
    rubbish: [await serve(t, (_, response) => response.end('<html>')), /Expected MLflow's REST API at .*<html>/],
    another: [
      await serve(t, (_, response) => response.writeHead(404).end('no such page')),
      /something else \(status 404\)/,
    ],
    redirects: [
      await serve(t, (_, response) => response.writeHead(307, { location: elsewhere }).end()),
      /cannot be reached: /,
    ],
    endless: [
      await serve(t, (_, response) => {
        const flood = (): void => {
          while (!response.destroyed && response.write(Buffer.alloc(1 << 20, 32)));
        }
        response.on('drain', flood)
        flood()
      }),
      /more than 16777216 bytes|not complete after 1 s/,
    ],
  }
  for (const [name, [url, reason]] of Object.entries(cases)) {
    const directory = join(own.root, name)
    await makeRun(name, [mlflowAt(url), { kind: 'tensorboard', directory }])
    const logged = await send(name, { limitMs: 1_000 })
    assert.equal(logged.length, 1, name)
    assert.match(logged[0] ?? '', reason)
    assert.match(logged[0] ?? '', new RegExp(`mlflow ${url} \\(x\\).*longhaul track ${name}$`))
    assert.equal((await eventFiles(directory, name)).length, 1, name)
  }
  assert.equal(redirected, 0)
})

test('sends the token from its variable and prints it nowhere; without the variable it sends nothing', async (t) => {
  const got: (string | undefined)[] = []
  const url = await serve(t, (request, response) => {
    got.push(request.headers.authorization)
    response.writeHead(401).end()
  })
  await makeRun('token', [mlflowAt(url, 'MLFLOW_TOKEN')])
  const [refused = ''] = await send('token', { env: { MLFLOW_TOKEN: 'se-cret' } })
  assert.deepEqual(got, ['Bearer se-cret'])
  assert.match(refused, /answered 401/)
  const [absent = ''] = await send('token')
  const [unusable = ''] = await send('token', { env: { MLFLOW_TOKEN: 'se-cret\nx' } })
  assert.match(absent, /token in MLFLOW_TOKEN.*got no such variable/)
  assert.match(unusable, /no header can carry/)
  assert.equal(got.length, 1)
  assert.doesNotMatch([refused, absent, unusable].join(), /se-cret/)
})

test('an unwritable directory is reported with the reason', async () => {
  const directory = join(own.root, 'a-file')
  await writeFile(directory, '')
  await makeRun('unwritable', [{ kind: 'tensorboard', directory }])
  assert.match((await send('unwritable'))[0] ?? '', /TensorBoard: .*a-file.*cannot be written \(ENOTDIR\)/)
})

test('a failing wandb ends its sending with the reason and the fix, and the other tracker gets everything', async () => {
  const programs = join(own.root, 'pythons')
  await mkdir(programs)
  const program = async (name: string, text: string): Promise<string> => {
    await writeFile(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
    return join(programs, name)
  }
  const cases: Record<string, [python: string, reason: RegExp]> = {
    'no-python': [join(programs, 'none'), /did not run \(spawn .*ENOENT\).*LONGHAUL_WANDB_PYTHON/],
    // A Python of this machine that looks for no packages has none.
    'no-package': [await program('bare', 'exec python3 -S "$@"'), /cannot be imported by .*pip install wandb/],
    fails: [await program('fails', 'echo "ValueError: no"; exit 1'), /ended with 1: ValueError: no/],
    'writes-nothing': [await program('idle', 'mkdir wandb'), /Expected the package wandb to write run-writes-nothing-/],
    'never-ends': [await program('hangs', 'sleep 300'), /not complete after 5 s/],
  }
  for (const [name, [python, reason]] of Object.entries(cases)) {
    const directory = join(own.root, `beside-${name}`)
    const wandb = { kind: 'wandb' as const, project: 'p', entity: null, directory: join(own.root, `wandb-${name}`) }
    await makeRun(name, [wandb, { kind: 'tensorboard', directory }])
    const limitMs = name === 'never-ends' ? 5_000 : 60_000
    const logged = await send(name, { limitMs, env: { ...process.env, LONGHAUL_WANDB_PYTHON: python } })
    assert.equal(logged.length, 1, name)
    assert.match(logged[0] ?? '', reason)
    assert.match(
      logged[0] ?? '',
      new RegExp(`did not all reach wandb ${wandb.directory} \\(p\\).*longhaul track ${name}$`),
    )
    assert.equal((await eventFiles(directory, name)).length, 1, name)
  }
})

test('a run without trackers reads and writes nothing', async () => {
  await makeRun('untracked', [])
  assert.deepEqual(await send('untracked'), [])
  assert.deepEqual(await own.store.list('runs/untracked/measured/'), [])
})

test('the next sending repairs a truncated or foreign event file and leaves a complete one alone', async () => {
  const directory = join(own.root, 'cut')
  await makeRun('cut', [{ kind: 'tensorboard', directory }])
  await send('cut')
  const [path = ''] = await eventFiles(directory, 'cut')
  const whole = await readFile(path)
  for (const there of [whole.subarray(0, 50), whole.subarray(0, 0), Buffer.from('other'), whole]) {
    await writeFile(path, there)
    assert.deepEqual(await send('cut'), [])
    assert.deepEqual(await readFile(path), whole)
  }
  await storeTraining(own.store, { run: 'cut', iteration: 1, step: 3 })
  await send('cut')
  const longer = await readFile(path)
  assert.ok(longer.length > whole.length)
  assert.deepEqual(longer.subarray(0, whole.length), whole)
  assert.deepEqual(await eventFiles(directory, 'cut'), [path])
})

test('concurrent senders agree on one order of records, one time for each, and one file', async () => {
  const directory = join(own.root, 'together')
  const run = 'together'
  await storeTrackedRun(own.store, run, [{ kind: 'tensorboard', directory }])
  for (let iteration = 0; iteration < 6; iteration++)
    await storeTraining(own.store, { run, iteration, step: 1 + 2 * iteration })
  await storeEvaluation(own.store, { run, name: 'base', globalStep: 0 })
  const logged = await Promise.all(Array.from({ length: 5 }, () => send(run)))
  assert.deepEqual(logged.flat(), [])
  const entries = await Promise.all(
    (await own.store.list('runs/together/measured/')).map((key) =>
      own.store.readRecord<{ record: string; atMs: number }>(key),
    ),
  )
  assert.equal(entries.length, 7)
  assert.equal(new Set(entries.map((entry) => entry?.record)).size, 7)
  const times = entries.map((entry) => entry?.atMs ?? 0)
  assert.ok(times.every((time, at) => at === 0 || time > (times[at - 1] ?? 0)))
  assert.equal((await eventFiles(directory, run)).length, 1)
})

test('metrics have each finite figure of each step, and evaluations by suite at the step of their policy', async () => {
  const run = 'named'
  await makeRun(run, [])
  await storeTraining(own.store, { run, stage: 'rft', iteration: 0, step: 0, steps: 1 })
  await storeEvaluation(own.store, { run, name: 'base', globalStep: 0 })
  await storeEvaluation(own.store, { run, name: 'dapo-1-0003.other', globalStep: 7 })
  const { points } = await readTrackedRun(own.store, run, { mayWrite: false })
  assert.deepEqual(
    points.filter(({ metric }) => metric.endsWith('/loss')).map(({ metric, step, value }) => [metric, step, value]),
    [
      ['rft/loss', 0, 1 / 2],
      ['dapo-1/loss', 1, 1 / 3],
      ['dapo-1/loss', 2, 1 / 4],
    ],
  )
  assert.deepEqual(
    points
      .filter(({ metric }) => metric.endsWith('/pass_at_1'))
      .map(({ metric, step, value }) => [metric, step, value]),
    [
      ['eval/held-out/pass_at_1', 0, 0.5],
      ['eval-inside/other/pass_at_1', 7, 0.75],
    ],
  )
  assert.ok(points.every(({ metric, value }) => !metric.endsWith('/entropy') && Number.isFinite(value)))
  assert.deepEqual(await own.store.list('runs/named/measured/'), [])
})

test('a hanging store ends the sending, and the run continues', async () => {
  await mkdir(join(own.root, 'x'), { recursive: true })
  await makeRun('stuck', [{ kind: 'tensorboard', directory: join(own.root, 'x') }])
  const store = { ...own.store, list: () => new Promise<never>(() => undefined) }
  const logged: string[] = []
  const world = { store, recipes: createRecipeReader(store), env: {}, log: (line: string) => void logged.push(line) }
  // A promise alone keeps no process alive.
  const alive = setInterval(() => undefined, 1_000)
  await createTracking({ ...world, limitMs: 300 })('stuck', signal).finally(() => clearInterval(alive))
  assert.match(logged.join(), /any tracker: not complete after 0.3 s/)
})

test('longhaul track prints points and handles runs without trackers, with other ones and unknown ones', async () => {
  const run = 'printed'
  await makeRun(run, [])
  const printed = await longhaul('track', run, '--points')
  const points = printed.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  assert.equal(points.length, 6)
  assert.deepEqual({ ...points[0], at: null }, { metric: 'dapo-1/loss', step: 1, value: 1 / 3, at: null })
  const none = await longhaul('track', run)
  assert.equal(none.exitCode, 1)
  assert.match(none.stderr, /Expected trackers in the recipe of printed, got none.*--recipe/)
  const directory = join(own.root, 'other')
  const path = join(own.root, 'tracked.yaml')
  const demo = await readFile(new URL('../../../recipes/demo.yaml', import.meta.url), 'utf8')
  await writeFile(path, `${demo}\ntrackers: [{ kind: tensorboard, directory: ${directory} }]\n`)
  const sent = await longhaul('track', run, '--recipe', path)
  assert.deepEqual([sent.exitCode, sent.stdout], [0, `tensorboard ${directory}: 6 of 6 points were new\n`])
  const absent = await longhaul('track', 'no-such-run', '--dry-run')
  assert.equal(absent.exitCode, 1)
  assert.match(absent.stderr, /No run called "no-such-run" is in the artifact store/)
})
