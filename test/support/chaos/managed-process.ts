/** A process of the chaos stack. It is restarted when it ends, unless it was stopped. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessPlan {
  name: string
  command: string
  args: string[]
  env: Record<string, string>
  log: string
  cwd: string
}

/** A supervisor's pause before a restart. */
const PAUSE_MS = 300

export class ManagedProcess {
  readonly plan: ProcessPlan
  #child: ChildProcess | null = null
  #wanted = false
  restarts = 0

  constructor(plan: ProcessPlan) {
    this.plan = plan
  }

  get pid(): number | null {
    return this.#child?.pid ?? null
  }

  start(): void {
    this.#wanted = true
    const log = openSync(this.plan.log, 'a')
    const child = spawn(this.plan.command, this.plan.args, {
      stdio: ['ignore', log, log],
      detached: true,
      cwd: this.plan.cwd,
      env: { ...process.env, ...this.plan.env },
    })
    closeSync(log)
    this.#child = child
    child.on('error', () => undefined)
    child.on('exit', () => {
      if (this.#child !== child) return
      this.#child = null
      if (this.#wanted) setTimeout(() => this.#again(), PAUSE_MS).unref()
    })
  }

  #again(): void {
    if (!this.#wanted || this.#child !== null) return
    this.restarts += 1
    this.start()
  }

  /** Signals the whole group, as the machine would. */
  signal(signal: NodeJS.Signals): void {
    const { pid } = this
    if (pid === null) return
    try {
      process.kill(-pid, signal)
    } catch {
      // The process has ended by itself.
    }
  }

  /** Stops it permanently. */
  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#wanted = false
    const child = this.#child
    if (child === null) return
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    this.signal('SIGCONT')
    this.signal(signal)
    const isOver = await Promise.race([ended.then(() => true), sleep(12_000, false)])
    if (!isOver) {
      this.signal('SIGKILL')
      await ended
    }
  }
}
