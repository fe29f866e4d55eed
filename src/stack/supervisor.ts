import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { writeFileAtomically, rotateLog } from '../platform/files.ts'
import { identify, type ProcessIdentity, stopProcess, thisProcessSpace } from '../platform/processes.ts'
import { readTemporalSettings } from '../platform/temporal-settings.ts'
import { runCommand } from '../platform/run-command.ts'
import { FIRST_SERVICES, type Readiness, type Service } from './services.ts'
import { type ServiceRecord, STACK_BEAT_MS, type StackConfig, type StackRecord } from './stack-record.ts'
import { Connection } from '@temporalio/client'
import type { StackFacts } from './environment.ts'
import { accepts } from '../platform/ports.ts'
import { answersWhole, hasPoller } from './temporal-namespace.ts'

/** Pause before the first restart; doubles up to LAST_PAUSE_MS. A killed worker should be back within a second. */
const FIRST_PAUSE_MS = 300
const LAST_PAUSE_MS = 15_000
/** A service that ran this long has recovered: its pause is reset. */
const STEADY_MS = 60_000
const READY_POLL_MS = 250
/** Pause before the record is written again, for example on a full disk. */
const WRITE_AGAIN_MS = 1_000
/** A server that was ready is asked this often. */
const ASK_EVERY_MS = 5_000
/** Limit of one such question. A busy server may answer late. */
const ASK_MS = 10_000
/** A live server that answers no question for this long hangs. It is ended and started again. */
const SILENT_MS = 10 * 60_000

interface Supervised {
  service: Service
  record: ServiceRecord
  child: ChildProcess | null
  pauseMs: number
  restartTimer: NodeJS.Timeout | null
}

export interface SupervisorTimes {
  /** @default ASK_EVERY_MS */
  askEveryMs?: number
  /** @default ASK_MS */
  askMs?: number
  /** @default SILENT_MS */
  silentMs?: number
}

/**
 * Keeps the services of one stack running: starts them (the database and Temporal first, the others once those are ready), restarts those
 * that end and servers that hang, and records all of them. If the supervisor is killed, its services keep running, and the next `up` or `down` finds them by the
 * record.
 */
export class Supervisor {
  readonly #config: StackConfig
  readonly #supervised: Supervised[]
  readonly #startedAt = new Date().toISOString()
  readonly #times: Required<SupervisorTimes>
  #stopping = false
  #writing: Promise<void> = Promise.resolve()
  #writeAgain: NodeJS.Timeout | null = null
  #beat: NodeJS.Timeout | null = null

  constructor(config: StackConfig, times: SupervisorTimes = {}) {
    this.#config = config
    this.#times = { askEveryMs: ASK_EVERY_MS, askMs: ASK_MS, silentMs: SILENT_MS, ...times }
    this.#supervised = config.services.map((service) => ({
      service,
      child: null,
      pauseMs: FIRST_PAUSE_MS,
      restartTimer: null,
      record: {
        name: service.name,
        state: 'starting',
        process: null,
        restarts: 0,
        lastExit: null,
        log: join(config.logsDir, `${service.name}.log`),
        ...(service.stopSignal === undefined ? {} : { stopSignal: service.stopSignal }),
      },
    }))
  }

  /** @throws if the record cannot be written; later it is written again until it can */
  async start(): Promise<void> {
    await this.#writeNow()
    this.#beat = setInterval(() => void this.#write(), STACK_BEAT_MS)
    this.#beat.unref()
    const first = this.#first()
    for (const one of first) {
      await this.#launch(one)
      while (!this.#stopping && one.record.state !== 'ready') await pause(50)
    }
    await Promise.all(this.#supervised.filter((one) => !first.includes(one)).map((one) => this.#launch(one)))
  }

  #first(): Supervised[] {
    return FIRST_SERVICES.flatMap((name) => this.#supervised.filter(({ service }) => service.name === name))
  }

  /** Stops workers and the policy server first, concurrently; then Temporal, so that workers can deregister; its database last. */
  async stop(): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    if (this.#beat !== null) clearInterval(this.#beat)
    const first = this.#first()
    await Promise.all(this.#supervised.filter((one) => !first.includes(one)).map((one) => this.#stopOne(one)))
    for (const one of first.toReversed()) await this.#stopOne(one)
    await this.#write()
    if (this.#writeAgain !== null) clearTimeout(this.#writeAgain)
  }

  async #launch(one: Supervised): Promise<void> {
    if (this.#stopping) return
    const { service, record } = one
    const log = await openLog(record.log).catch((error: Error) => error)
    if (log instanceof Error) return this.#endedAs(one, `did not start: ${log.message}`, Date.now())
    // `stop` saw no process of this service meanwhile, so it would end none.
    if (this.#stopping) return closeSync(log)
    // A process group of its own: Ctrl-C in the terminal does not reach the service, and killing the group also ends its children.
    const child = spawn(service.command, service.args, {
      stdio: ['ignore', log, log],
      detached: true,
      env: { ...process.env, ...service.env },
      cwd: this.#config.facts.dataDir,
    })
    closeSync(log)
    one.child = child
    const startedMs = Date.now()
    child.on('error', (error) => this.#ended(one, child, `did not start: ${error.message}`, startedMs))
    child.on('exit', (code, signal) => this.#ended(one, child, signal ?? `exit ${code}`, startedMs))
    if (child.pid === undefined) return
    record.process = identify(child.pid)
    record.state = record.restarts === 0 ? 'starting' : 'restarting'
    await this.#write()
    void this.#watchReadiness(one, child, record.process)
  }

  async #watchReadiness(one: Supervised, child: ChildProcess, identity: ProcessIdentity): Promise<void> {
    const { ready } = one.service
    while (one.child === child && !this.#stopping) {
      if (await isReady({ ready, facts: this.#config.facts, pid: identity.pid })) {
        if (one.child !== child) return
        one.record.state = 'ready'
        await this.#write()
        if (ready.kind === 'http') await this.#watchAnswers(one, child, { url: ready.url, identity })
        return
      }
      await pause(READY_POLL_MS)
    }
  }

  /** Ends a server that is alive but has stopped answering: its end starts it again. Measured by a clock that nobody sets. */
  async #watchAnswers(one: Supervised, child: ChildProcess, server: { url: string; identity: ProcessIdentity }) {
    const { askEveryMs, askMs, silentMs } = this.#times
    for (let answeredAt = performance.now(); ; ) {
      await pause(askEveryMs)
      if (one.child !== child || this.#stopping) return
      if (await answers(server.url, askMs)) answeredAt = performance.now()
      else if (performance.now() - answeredAt > silentMs) break
    }
    if (one.child !== child || this.#stopping) return
    const { name, graceMs, stopSignal } = one.service
    say(`${name} has not answered for ${Math.round(silentMs / 1000)} s and is started again`)
    await stopProcess({ identity: server.identity, graceMs, signal: stopSignal })
  }

  #ended(one: Supervised, child: ChildProcess, how: string, startedMs: number): void {
    if (one.child !== child) return
    one.child = null
    // `#stopOne` has already recorded the end.
    if (this.#stopping && one.record.state === 'stopped') return
    this.#endedAs(one, how, startedMs)
  }

  #endedAs(one: Supervised, how: string, startedMs: number): void {
    one.record.process = null
    one.record.lastExit = how
    one.record.state = this.#stopping ? 'stopped' : 'restarting'
    void this.#write()
    if (this.#stopping) return
    if (Date.now() - startedMs > STEADY_MS) one.pauseMs = FIRST_PAUSE_MS
    one.record.restarts += 1
    one.restartTimer = setTimeout(() => void this.#launchAgain(one), one.pauseMs)
    one.pauseMs = Math.min(one.pauseMs * 2, LAST_PAUSE_MS)
  }

  /** Waits for the services that this one needs: a server without its database ends at once, and its pause would grow. */
  async #launchAgain(one: Supervised): Promise<void> {
    const first = this.#first()
    const before = first.slice(0, Math.max(0, first.indexOf(one)))
    while (!this.#stopping && before.some(({ record }) => record.state !== 'ready')) await pause(50)
    await this.#launch(one)
  }

  async #stopOne(one: Supervised): Promise<void> {
    if (one.restartTimer !== null) clearTimeout(one.restartTimer)
    const { process: identity } = one.record
    const { graceMs, stopSignal } = one.service
    if (identity !== null) await stopProcess({ identity, graceMs, signal: stopSignal })
    one.record.process = null
    one.record.state = 'stopped'
  }

  /** Sequential: an older record must not replace a newer one. Never rejects: the services need their supervisor on a full disk too. */
  #write(): Promise<void> {
    this.#writing = this.#writing.then(() =>
      this.#writeNow().catch((error: Error) => {
        if (this.#writeAgain !== null) return
        say(`the record of the stack cannot be written: ${error.message}`)
        this.#writeAgain = setTimeout(() => {
          this.#writeAgain = null
          void this.#write()
        }, WRITE_AGAIN_MS)
      }),
    )
    return this.#writing
  }

  async #writeNow(): Promise<void> {
    const { facts, fingerprint, given, ownsTemporal, ownsEngine, runDir, recordFile } = this.#config
    const record: StackRecord = {
      version: 1,
      startedAt: this.#startedAt,
      machine: thisProcessSpace(),
      supervisor: identify(process.pid),
      fingerprint,
      ...(given === undefined ? {} : { given }),
      ownsTemporal,
      ownsEngine,
      facts,
      runDir,
      services: this.#supervised.map((one) => ({ ...one.record })),
    }
    await writeFileAtomically(recordFile, `${JSON.stringify(record, null, 2)}\n`)
  }
}

async function openLog(path: string): Promise<number> {
  await rotateLog(path)
  return openSync(path, 'a')
}

/** Into the supervisor's log. */
function say(line: string): void {
  console.error(`${new Date().toISOString()} ${line}`)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

interface ReadinessInput {
  ready: Readiness
  facts: StackFacts
  pid: number
}

/** One check, within seconds; never throws. */
async function isReady({ ready, facts, pid }: ReadinessInput): Promise<boolean> {
  switch (ready.kind) {
    case 'tcp':
      return accepts(ready.host, ready.port)
    case 'http':
      return answers(ready.url, 3_000)
    case 'poller':
      return asksServer(facts, (connection) =>
        pollsOne(connection, { namespace: facts.namespace, queues: ready.queues, pid }),
      )
    case 'server':
      return asksServer(facts, answersWhole)
    case 'program':
      return (await runCommand({ command: ready.command, args: ready.args, timeoutMs: 5_000 })).exitCode === 0
  }
}

/** Whether a server says in time that it is well. */
async function answers(url: string, timeoutMs: number): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  }
}

async function pollsOne(
  connection: Connection,
  { namespace, queues, pid }: { namespace: string; queues: readonly string[]; pid: number },
): Promise<boolean> {
  for (const queue of queues) if (await hasPoller(connection, { namespace, queue, pid })) return true
  return false
}

async function asksServer(
  { temporalAddress, namespace }: StackFacts,
  ask: (connection: Connection) => Promise<boolean>,
): Promise<boolean> {
  let connection: Connection | undefined
  try {
    const { address, credentials } = readTemporalSettings(process.env, { address: temporalAddress, namespace })
    connection = await Connection.connect({ address, connectTimeout: 3_000, ...credentials })
    return await ask(connection)
  } catch {
    return false
  } finally {
    await connection?.close()
  }
}
