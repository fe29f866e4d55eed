/** A third-party engine as a process of a test: started, awaited and killed. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually, HANG_MS } from '../hang.ts'

export interface LiveEngine {
  url: string
  /** Kills it with all of its processes at once, as if the machine died. */
  kill(): Promise<void>
}

interface StartEngineInput {
  /** Name in messages: `vLLM`. */
  what: string
  program: string
  args: readonly string[]
  env: Record<string, string>
  url: string
  /** File with the engine's output. */
  log: string
  /** Explains such a log. */
  explain?: (log: string) => string | null
}

/** @throws Error with the engine's output if it does not answer */
export async function startEngine({
  what,
  program,
  args,
  env,
  url,
  log,
  explain,
}: StartEngineInput): Promise<LiveEngine> {
  const output = await open(log, 'a')
  const child = spawn(program, args, {
    env,
    // Its own group, because the engine's core is a child of its server.
    detached: true,
    stdio: ['ignore', output.fd, output.fd],
  })
  await output.close()
  const exited = once(child, 'exit')
  // A hanging test file is ended by SIGTERM: its engine is in another group and would outlive it.
  const end = (): void => killGroup(child)
  const endAll = (): void => process.exit(143)
  process.once('exit', end)
  process.once('SIGTERM', endAll)
  const kill = async (): Promise<void> => {
    end()
    await exited
    process.off('exit', end)
    process.off('SIGTERM', endAll)
  }
  try {
    await untilHealthy(url, child)
  } catch (error) {
    await kill()
    const text = await readFile(log, 'utf8')
    throw new Error(`${what} did not start. ${explain?.(text) ?? ''}\n${text.slice(-4_000)}`, { cause: error })
  }
  return { url, kill }
}

async function untilHealthy(url: string, child: ChildProcess): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(500)) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('it ended')
    const isHealthy = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isHealthy) return
  }
  throw new Error('it did not answer')
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All processes of the group have ended.
  }
}

interface AskUntilAtWorkInput<T> {
  /** Sends many requests at once. */
  ask: () => Promise<T>[]
  /** Number of requests in progress, as the engine reports it. */
  running: () => Promise<number>
}

/**
 * Waits until an engine works on the requests. On a busy machine it may finish before its report is read; the requests are then sent
 * again.
 * @returns the answers that are still to come
 */
export async function askUntilAtWork<T>({ ask, running }: AskUntilAtWorkInput<T>): Promise<Promise<T>[]> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; ) {
    const asked = ask()
    const over = Promise.allSettled(asked).then(() => true)
    do {
      if ((await running()) > 0) return asked
    } while (Date.now() < deadline && !(await Promise.race([over, sleep(5, false)])))
  }
  throw new Error('The engine was never at work')
}

/** Requests that are aborted while the engine works must end in the engine too, and reject with the reason of their signal. */
export async function assertGivenUp<T>({
  ask,
  running,
}: {
  ask: (until: AbortSignal) => Promise<T>[]
  running: AskUntilAtWorkInput<T>['running']
}): Promise<void> {
  const given = new AbortController()
  const reason = new Error('the episode was cancelled')
  const asked = await askUntilAtWork({ ask: () => ask(given.signal), running })
  given.abort(reason)
  const ends = await Promise.allSettled(asked)
  const refused = ends.filter((end) => end.status === 'rejected')
  assert.ok(refused.length > 0, 'every request had ended before it was cancelled')
  for (const end of refused) assert.equal(end.reason, reason)
  await eventually(async () => assert.equal(await running(), 0))
}
