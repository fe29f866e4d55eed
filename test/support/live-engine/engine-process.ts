/** An engine of others as a process of a test: started, waited for and killed. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually, HANG_MS } from '../hang.ts'

export interface LiveEngine {
  url: string
  /** Ends it with all of its processes at once, as a machine that dies. */
  kill(): Promise<void>
}

interface StartEngineInput {
  /** In messages: `vLLM`. */
  what: string
  program: string
  args: readonly string[]
  env: Record<string, string>
  url: string
  /** File of what the engine prints. */
  log: string
  /** What such a log means. */
  explain?: (log: string) => string | null
}

/** @throws Error with what the engine printed where it does not answer */
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
    // A group of its own: the engine's core is a child of its server.
    detached: true,
    stdio: ['ignore', output.fd, output.fd],
  })
  await output.close()
  const exited = once(child, 'exit')
  // A test file that hangs is ended by TERM: its engine is in another group, and would outlive it.
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
    // All of it has ended.
  }
}

interface AskUntilAtWorkInput<T> {
  /** Asks for much at once. */
  ask: () => Promise<T>[]
  /** Requests that the engine works on, by its own account. */
  running: () => Promise<number>
}

/**
 * Until an engine has begun with what it was asked. On a busy machine it may be done before its account is read: then it is asked
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

/** Requests that are given up while the engine works end in it too, and reject with the reason of their signal. */
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
  assert.ok(refused.length > 0, 'all had ended before they were given up')
  for (const end of refused) assert.equal(end.reason, reason)
  await eventually(async () => assert.equal(await running(), 0))
}
