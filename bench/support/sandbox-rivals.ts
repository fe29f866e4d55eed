import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Container } from 'dockerode'

import type { Engine } from '../../src/adapters/docker/engine.ts'
import type { DockerSandboxHost } from '../../src/adapters/docker/sandbox-host.ts'
import type { SandboxHandle, TurnMark } from '../../src/contracts/sandbox.types.ts'

/** A way to run commands in a container. Each has a container of its own, of the same image. */
export interface Rival {
  name: string
  /** Runs one command as the caller sees it and returns how long that took, in milliseconds. A command that passes its
   *  deadline counts as run. */
  run(command: string, timeoutMs: number): Promise<number>
  close(): Promise<void>
}

export function ours({ host, sandbox }: { host: DockerSandboxHost; sandbox: SandboxHandle }): Rival {
  const signal = new AbortController().signal
  let turn = 0
  let after: TurnMark | null = null
  return {
    name: 'ours',
    async run(command, timeoutMs) {
      const token = `bench${turn}`
      const request = { turn, after, fence: 1, token, command, timeoutMs, maxOutputBytes: 16_000 }
      after = { turn, token }
      turn += 1
      const started = performance.now()
      await host.runTurn(sandbox, request, signal)
      return performance.now() - started
    },
    close: () => host.close(sandbox),
  }
}

/** `docker exec`, one client process a command, as most harnesses do it. */
export function dockerCli({ engine, container }: { engine: Engine; container: Container }): Rival {
  return {
    name: 'dockerCli',
    async run(command, timeoutMs) {
      const started = performance.now()
      const client = spawn('docker', ['exec', '-w', '/testbed', container.id, 'bash', '-c', command], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, DOCKER_HOST: engine.host },
        timeout: timeoutMs,
        killSignal: 'SIGKILL',
      })
      client.stdout.resume()
      client.stderr.resume()
      await once(client, 'close')
      return performance.now() - started
    },
    close: async () => container.remove({ force: true }),
  }
}

/** Two requests a command: create the exec, start it. */
export function engineApi({ container }: { container: Container }): Rival {
  return {
    name: 'engineApi',
    async run(command, timeoutMs) {
      const started = performance.now()
      const exec = await container.exec({
        Cmd: ['bash', '-c', command],
        WorkingDir: '/testbed',
        AttachStdout: true,
        AttachStderr: true,
      })
      const stream = await exec.start({ hijack: true, stdin: false })
      stream.resume()
      const overdue = new AbortController()
      await Promise.race([once(stream, 'end'), sleep(timeoutMs, null, { signal: overdue.signal }).catch(() => null)])
      overdue.abort()
      stream.destroy()
      return performance.now() - started
    },
    close: async () => container.remove({ force: true }),
  }
}

export interface PeerInput {
  /** Of the result's JSON. */
  name: 'miniSweAgent' | 'sweRex'
  /** Python environment that has it. */
  environment: string
  engine: Engine
  image: string
}

/** A harness from the Python registry, in a process of its own; the time is taken there. Null where it is not installed or
 *  cannot start here; why is said on stderr. */
export async function peer({ name, environment, engine, image }: PeerInput): Promise<Rival | null> {
  const python = join(environment, 'bin/python')
  if (!existsSync(python)) throw new Error(`Expected a Python environment, found no bin/python [peers=${environment}]`)
  const child = spawn(python, [join(import.meta.dirname, 'sandbox_peer.py'), name, image], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, DOCKER_HOST: engine.host, MSWEA_SILENT_STARTUP: '1' },
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<{ ready?: boolean; ms?: number } | null> => {
    const { value, done } = await lines.next()
    return done === true ? null : (JSON.parse(value) as { ready?: boolean; ms?: number })
  }
  const first = await answer()
  if (first?.ready !== true) return null
  return {
    name,
    async run(command, timeoutMs) {
      child.stdin.write(`${JSON.stringify({ command, timeout: timeoutMs / 1000 })}\n`)
      const { ms } = (await answer()) ?? {}
      if (ms === undefined) throw new Error(`The peer ended [name=${name}]`)
      return ms
    },
    async close() {
      const ended = once(child, 'close')
      child.stdin.end()
      await ended
    },
  }
}
