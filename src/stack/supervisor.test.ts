import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { choosePort } from '../platform/ports.ts'
import { isAlive, signalGroup } from '../platform/processes.ts'
import type { Service } from './services.ts'
import { readStackRecord, type ServiceRecord, type StackConfig } from './stack-record.ts'
import { Supervisor } from './supervisor.ts'
import { HANG_MS } from '../../test/support/hang.ts'

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
  const facts: StackConfig['facts'] = {
    name: 'supervisor-test',
    cacheDir: folder,
    dataDir: folder,
    artifactsDir: folder,
    temporalAddress: '127.0.0.1:1',
    namespace: 'default',
    uiUrl: null,
    policyUrl: '',
    dockerHost: null,
    python: null,
    bundle: null,
    baseImage: null,
  }
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
