import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { access, mkdir, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { accepts, choosePort } from '../platform/ports.ts'
import { isAlive, signalGroup, thisProcessSpace } from '../platform/processes.ts'
import type { Service } from './services.ts'
import { readStackRecord, type ServiceRecord, STACK_BEAT_MS, type StackConfig } from './stack-record.ts'
import { Supervisor } from './supervisor.ts'
import { eventually, HANG_MS } from '../../test/support/hang.ts'
import { bareStackFacts } from '../../test/support/stack-facts.ts'

function listener(name: string, port: number): Service {
  return {
    name,
    command: process.execPath,
    args: ['-e', `require('node:net').createServer().listen(${port}, '127.0.0.1')`],
    env: {},
    ready: { kind: 'tcp', host: '127.0.0.1', port },
    graceMs: 2_000,
  }
}

function configOf(folder: string, services: Service[]): StackConfig {
  const facts = bareStackFacts(folder, 'supervisor-test')
  const files = { runDir: folder, logsDir: folder, recordFile: join(folder, 'stack.json') }
  return { facts, fingerprint: 'x', ownsTemporal: false, ownsEngine: false, ...files, services }
}

async function until(
  recordFile: string,
  name: string,
  isWanted: (service: ServiceRecord) => boolean,
): Promise<ServiceRecord> {
  const deadline = Date.now() + HANG_MS
  for (;;) {
    const service = (await readStackRecord(recordFile))?.services.find((one) => one.name === name)
    if (service !== undefined && isWanted(service)) return service
    assert.ok(Date.now() < deadline, `${name} never reached the state: ${JSON.stringify(service)}`)
    await sleep(20)
  }
}

test('restarts a killed service while the others keep their processes, and stops all of them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  const taken = new Set<number>()
  const port = (): Promise<number> => choosePort({ preferred: [], taken })
  const config = configOf(folder, [listener('temporal', await port()), listener('worker-control', await port())])
  const supervisor = new Supervisor(config)
  const isReady = ({ state }: ServiceRecord): boolean => state === 'ready'
  try {
    await supervisor.start()
    const server = await until(config.recordFile, 'temporal', isReady)
    const victim = await until(config.recordFile, 'worker-control', isReady)
    assert.ok(victim.process !== null && server.process !== null)
    signalGroup(victim.process, 'SIGKILL')
    const again = await until(config.recordFile, 'worker-control', (one) => isReady(one) && one.restarts === 1)
    assert.notEqual(again.process?.pid, victim.process.pid)
    assert.equal(again.lastExit, 'SIGKILL')
    assert.deepEqual((await until(config.recordFile, 'temporal', isReady)).process, server.process)
    await supervisor.stop()
    assert.ok(again.process !== null)
    assert.deepEqual([isAlive(server.process), isAlive(again.process)], [false, false])
    assert.equal((await until(config.recordFile, 'worker-control', () => true)).state, 'stopped')
  } finally {
    await supervisor.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

test('starts database and Temporal in order when each is ready, and stops them in reverse by their own signals', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  const taken = new Set<number>()
  const story = join(folder, 'story')
  // Writes down when it starts and by which signal it ends.
  const teller = async (name: string, stopSignal?: 'SIGINT'): Promise<Service> => {
    const port = await choosePort({ preferred: [], taken })
    const script = `
      const { appendFileSync } = require('node:fs')
      const say = (what) => appendFileSync(${JSON.stringify(story)}, what + ' ${name}\\n')
      say('start')
      for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { say(signal); process.exit(0) })
      setTimeout(() => { say('ready'); require('node:net').createServer().listen(${port}, '127.0.0.1') }, 100)`
    return { ...listener(name, port), args: ['-e', script], ...(stopSignal === undefined ? {} : { stopSignal }) }
  }
  const services = [await teller('worker-control'), await teller('temporal'), await teller('postgres', 'SIGINT')]
  const config = configOf(folder, services)
  const supervisor = new Supervisor(config)
  try {
    await supervisor.start()
    await until(config.recordFile, 'worker-control', ({ state }) => state === 'ready')
    assert.equal((await until(config.recordFile, 'postgres', () => true)).stopSignal, 'SIGINT')
    await supervisor.stop()
    assert.deepEqual((await readFile(story, 'utf8')).trim().split('\n'), [
      'start postgres',
      'ready postgres',
      'start temporal',
      'ready temporal',
      'start worker-control',
      'ready worker-control',
      'SIGTERM worker-control',
      'SIGTERM temporal',
      'SIGINT postgres',
    ])
  } finally {
    await supervisor.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

test('a record that cannot be written, as on a full disk, ends no supervision, and is written as soon as it can be', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  const records = join(folder, 'records')
  const recordFile = join(records, 'stack.json')
  const port = await choosePort({ preferred: [], taken: new Set() })
  const config = { ...configOf(folder, [listener('worker-control', port)]), recordFile }
  const supervisor = new Supervisor(config)
  const isReady = ({ state }: ServiceRecord): boolean => state === 'ready'
  try {
    await supervisor.start()
    const victim = await until(recordFile, 'worker-control', isReady)
    assert.ok(victim.process !== null)
    await rm(records, { recursive: true })
    await writeFile(records, 'no folder')
    signalGroup(victim.process, 'SIGKILL')
    await untilAccepts(port)
    await rm(records)
    await mkdir(records)
    const again = await until(recordFile, 'worker-control', (one) => isReady(one) && one.restarts === 1)
    assert.ok(again.process !== null && again.process.pid !== victim.process.pid)
  } finally {
    await supervisor.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

test('a service whose restart has begun is not started after the stop', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  const story = join(folder, 'story')
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const script = `
    require('node:fs').appendFileSync(${JSON.stringify(story)}, 'x')
    if (require('node:fs').readFileSync(${JSON.stringify(story)}, 'utf8') === 'x') process.exit(1)
    setTimeout(() => undefined, 20_000)`
  const service: Service = { ...listener('worker-control', 1), args: ['-e', script] }
  const config = configOf(folder, [service])
  const supervisor = new Supervisor(config)
  t.after(() => rm(folder, { recursive: true, force: true }))
  await supervisor.start()
  await until(config.recordFile, 'worker-control', ({ restarts }) => restarts === 1)
  // Nothing that this process asks of the disk is answered while its threads wait for a writer.
  const waiting = Array.from({ length: Number(process.env['UV_THREADPOOL_SIZE'] ?? 4) }, () => open(pipe, 'r'))
  await sleep(600)
  const stopping = supervisor.stop()
  const writer = openSync(pipe, 'r+')
  await Promise.all(waiting.map(async (reader) => (await reader).close()))
  closeSync(writer)
  await stopping
  await sleep(500)
  assert.equal(await readFile(story, 'utf8'), 'x')
})

test('a server that is alive but has stopped answering is started again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  const port = await choosePort({ preferred: [], taken: new Set() })
  const url = `http://127.0.0.1:${port}/health`
  const script = `require('node:http').createServer((_, answer) => answer.end('well')).listen(${port}, '127.0.0.1')`
  const service: Service = { ...listener('policy-server', port), args: ['-e', script], ready: { kind: 'http', url } }
  const config = configOf(folder, [{ ...service, graceMs: 100 }])
  const supervisor = new Supervisor(config, { askEveryMs: 20, askMs: 200, silentMs: 500 })
  const isReady = ({ state }: ServiceRecord): boolean => state === 'ready'
  try {
    await supervisor.start()
    const first = await until(config.recordFile, 'policy-server', isReady)
    assert.ok(first.process !== null)
    await sleep(1_000)
    assert.equal((await until(config.recordFile, 'policy-server', () => true)).restarts, 0, 'it answers')
    process.kill(first.process.pid, 'SIGSTOP')
    const again = await until(config.recordFile, 'policy-server', (one) => isReady(one) && one.restarts === 1)
    assert.equal(again.lastExit, 'SIGKILL')
    assert.equal(isAlive(first.process), false)
  } finally {
    await supervisor.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

async function untilAccepts(port: number): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; !(await accepts('127.0.0.1', port)); await sleep(50)) {
    assert.ok(Date.now() < deadline, 'it was not started again')
  }
}

test('the record says on which machine the stack runs, and is written again as a sign of life until the stack is stopped', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'supervisor-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const config = configOf(folder, [])
  const supervisor = new Supervisor(config)
  t.mock.timers.enable({ apis: ['setInterval'] })
  await supervisor.start()
  await rm(config.recordFile)
  t.mock.timers.tick(STACK_BEAT_MS)
  await eventually(() => access(config.recordFile))
  assert.deepEqual((await readStackRecord(config.recordFile))?.machine, thisProcessSpace())
  await supervisor.stop()
  await rm(config.recordFile)
  t.mock.timers.tick(2 * STACK_BEAT_MS)
  await assert.rejects(access(config.recordFile), { code: 'ENOENT' })
})
