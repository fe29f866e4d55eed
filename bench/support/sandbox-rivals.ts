import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Container } from 'dockerode'

import type { Engine } from '../../src/adapters/docker/engine/engine.ts'
import type { DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { SandboxHandle, TurnMark } from '../../src/contracts/sandbox.types.ts'
import type { Ran } from './sandbox-commands.ts'

/** A way to run commands in a container. Each rival has its own container of the same image. */
export interface Rival {
  name: string
  /** Whether the rival returns text: it changes line ends and loses bytes that are not UTF-8. */
  isText?: boolean
  /** Runs one command as the caller sees it. The bench checks the result, so errors are not swallowed. */
  run(command: string, timeoutMs: number): Promise<Ran>
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
      const { exitCode, reason, head, outputBytes } = await host.runTurn(sandbox, request, signal)
      const ms = performance.now() - started
      const output = Buffer.from(head).toString('latin1')
      return { ms, exitCode, isTimeout: reason === 'timeout', output, outputBytes }
    },
    close: () => host.close(sandbox),
  }
}

/** `docker exec` with one client process per command, as most harnesses do it. */
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
      const output = gather(client.stdout, client.stderr)
      const [exitCode, killedBy] = (await once(client, 'close')) as [number | null, string | null]
      const ms = performance.now() - started
      return { ms, exitCode, isTimeout: killedBy === 'SIGKILL', ...output() }
    },
    close: async () => container.remove({ force: true }),
  }
}

/** Two requests per command: create the exec, start it. */
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
      const [stdout, stderr] = [new PassThrough(), new PassThrough()]
      container.modem.demuxStream(stream, stdout, stderr)
      const output = gather(stdout, stderr)
      let isTimeout = false
      const overdue = new AbortController()
      const deadline = sleep(timeoutMs, null, { signal: overdue.signal }).then(
        () => {
          isTimeout = true
        },
        () => undefined,
      )
      await Promise.race([once(stream, 'end'), deadline])
      overdue.abort()
      stream.destroy()
      const ms = performance.now() - started
      // Not one of the two measured requests: only the check needs it.
      const { ExitCode: exitCode } = await exec.inspect()
      return { ms, exitCode, isTimeout, ...output() }
    },
    close: async () => container.remove({ force: true }),
  }
}

export interface PeerInput {
  /** Key in the result's JSON. */
  name: 'miniSweAgent' | 'sweRex'
  /** Python environment with the harness. */
  environment: string
  engine: Engine
  image: string
}

/** A harness from the Python registry in its own process, which measures the time. Null if it is not installed or cannot start here;
 *  stderr has the reason. */
export async function peer({ name, environment, engine, image }: PeerInput): Promise<Rival | null> {
  const python = join(environment, 'bin/python')
  if (!existsSync(python)) throw new Error(`Expected a Python environment, found no bin/python [peers=${environment}]`)
  const child = spawn(python, [join(import.meta.dirname, 'sandbox_peer.py'), name, image], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, DOCKER_HOST: engine.host, MSWEA_SILENT_STARTUP: '1' },
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<Answer | null> => {
    const { value, done } = await lines.next()
    return done === true ? null : (JSON.parse(value) as Answer)
  }
  const first = await answer()
  if (first?.ready !== true) return null
  return {
    name,
    isText: true,
    async run(command, timeoutMs) {
      child.stdin.write(`${JSON.stringify({ command, timeout: timeoutMs / 1000 })}\n`)
      const said = await answer()
      if (said?.ms === undefined) throw new Error(`The peer ended [name=${name}]`)
      const { ms, exit = null, error = null, timeout: isTimeout = false } = said
      const output = error ?? Buffer.from(said.output ?? '').toString('latin1')
      return { ms, exitCode: error === null ? exit : null, isTimeout, output, outputBytes: output.length }
    },
    async close() {
      const ended = once(child, 'close')
      child.stdin.end()
      await ended
    },
  }
}

/** A line of `sandbox_peer.py`. */
interface Answer {
  ready?: boolean
  ms?: number
  exit?: number | null
  output?: string
  timeout?: boolean
  /** The exception, unless it reports that the deadline has passed. */
  error?: string
}

/** Collects two streams in order of arrival; the returned function gives the data so far. */
function gather(...streams: Readable[]): () => Pick<Ran, 'output' | 'outputBytes'> {
  const chunks: Buffer[] = []
  for (const stream of streams) stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  return () => {
    const all = Buffer.concat(chunks)
    return { output: all.toString('latin1'), outputBytes: all.length }
  }
}
