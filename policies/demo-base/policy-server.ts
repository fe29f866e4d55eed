import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export interface PolicyServer {
  url: string
  stop(): Promise<void>
}

const TRAINER = fileURLToPath(new URL('../../trainer', import.meta.url))
const START_TIMEOUT_MS = 120_000

/** The product's embedded server on a free port, for as long as an evaluation lasts. */
export async function startPolicyServer({
  python,
  log,
}: {
  python: string
  log(line: string): void
}): Promise<PolicyServer> {
  const state = await mkdtemp(join(tmpdir(), 'longhaul-evaluate-'))
  const port = await freePort()
  const child = spawn(python, ['-m', 'longhaul_trainer', 'serve', '--port', String(port), '--state', state], {
    cwd: TRAINER,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const ended = once(child, 'exit')
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
    await rm(state, { recursive: true, force: true })
  }
  const url = `http://127.0.0.1:${port}`
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!(await isHealthy(url))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop()
      throw new Error('Expected the policy server to start; its own output says why it did not')
    }
    await sleep(300)
  }
  log(`policy server on ${url}`)
  return { url, stop }
}

async function isHealthy(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    (answer) => answer.ok,
    () => false,
  )
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  return typeof address === 'object' && address !== null ? address.port : 0
}
