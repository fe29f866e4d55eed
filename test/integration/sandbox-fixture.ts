import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { type Engine, connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import { removeContainer } from '../../src/adapters/docker/container/create-container.ts'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { type DockerSandboxHost, createDockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import type { RunnerPool } from '../../src/adapters/docker/sandbox/runner-pool.ts'
import type {
  OpenSandboxInput,
  SandboxHost,
  SandboxLimits,
  SandboxHandle,
  TurnMark,
  TurnRequest,
  TurnResult,
} from '../../src/contracts/sandbox.types.ts'
import { HANG_MS } from '../support/hang.ts'

export const LIMITS = { cpus: 2, memoryMiB: 512, pids: 256 }
export const SMALL_WINDOW = { windowLines: 8, windowOverlap: 2, pathForm: 'relative' } as const

/** What the promises of a sandbox need of a host, wherever its sandboxes are. */
export interface ContractHost extends SandboxHost {
  context: { runners: Pick<RunnerPool, 'request' | 'disconnect'> }
  dispose(): void
}

/** What they need of a backend: a real engine, or a real cluster. */
export interface ContractFixture {
  backend: 'containers' | 'pods'
  host: ContractHost
  run: string
  openInput(changes?: Partial<OpenSandboxInput>): OpenSandboxInput
  /** Another worker that reaches the same sandboxes, of this stack or another one; its caller disposes of it. */
  anotherHost(namespaceId?: string): Promise<ContractHost>
  /** Names of the graders of this run, without those that are being removed. */
  graders(): Promise<string[]>
  /** Ends a sandbox or grader from outside, as an operator would. */
  kill(name: string): Promise<void>
  isRunning(name: string): Promise<boolean>
  /** Ids of execs that the backend remembers; null where it remembers none. */
  execs(name: string): Promise<string[] | null>
  /** Of a backend whose sandboxes start again. */
  restart(name: string): Promise<void>
  /** Looks into the sandbox beside the runner. */
  probe(sandbox: Pick<SandboxHandle, 'name'>, command: string): Promise<string>
  dispose(): Promise<void>
}

export type MakeFixture = (topic: string, files: Record<string, string | Buffer>) => Promise<ContractFixture>

export interface SandboxFixture extends ContractFixture {
  engine: Engine
  host: DockerSandboxHost
  image: string
  run: string
  openInput(changes?: Partial<OpenSandboxInput>): OpenSandboxInput
}

/** Names the network devices that are up. A kernel adds tunnels that are down to each namespace, where their modules are loaded. */
export const DEVICES_UP =
  'for dev in /sys/class/net/*; do if [ $(($(cat $dev/flags) & 1)) = 1 ]; then basename $dev; fi; done'

export const never: AbortSignal = new AbortController().signal

/** A real engine, a task image made of the given files, and a host. Names hold the process id: test files run side by side. */
export async function createSandboxFixture(
  topic: string,
  files: Record<string, string | Buffer>,
): Promise<SandboxFixture> {
  const engine = await connectEngine()
  const userCache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'longhaul')
  const cacheHome = process.env['LONGHAUL_CACHE'] ?? userCache
  const base = await ensureBaseImage({ engine, cacheDir: join(cacheHome, 'images'), log: console.error })
  const run = `test-${topic}-${process.pid}`
  const image = `longhaul-test/${topic}:${process.pid}`
  await buildTaskImage({ engine, base: base.tag, tag: image, repoTar: repositoryTar(files), labels: {} })
  const host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  return {
    backend: 'containers',
    engine,
    host,
    image,
    run,
    anotherHost: async (namespaceId = '') =>
      createDockerSandboxHost({ engine, hostId: 'other', hostQueue: 'other', namespaceId }),
    graders: async () =>
      (await listSandboxes({ engine, run })).filter(({ role }) => role !== 'agent').map(({ name }) => name),
    kill: async (name) => void (await engine.docker.getContainer(name).kill()),
    isRunning: async (name) => (await engine.docker.getContainer(name).inspect()).State.Running,
    execs: async (name) => (await engine.docker.getContainer(name).inspect()).ExecIDs ?? [],
    restart: async (name) => void (await engine.docker.getContainer(name).restart({ t: 0 })),
    probe: (sandbox, command) => probe({ engine }, sandbox, command),
    openInput: (changes = {}) => ({
      run,
      episode: `${run}/stage/0001/task/00`,
      role: 'agent',
      placement: 1,
      image,
      repoDir: '/testbed',
      tools: SMALL_WINDOW,
      limits: LIMITS,
      owner: 'test',
      leaseMs: 120_000,
      ...changes,
    }),
    async dispose() {
      host.dispose()
      for (const { name } of await listSandboxes({ engine, run })) await removeContainer({ engine, name })
      await engine.docker.getImage(image).remove({ force: true })
    },
  }
}

/** A git repository of one commit, as an archive. */
export function repositoryTar(files: Record<string, string | Buffer>): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), content)
    }
    const identity = {
      GIT_AUTHOR_NAME: 't',
      GIT_AUTHOR_EMAIL: 't@t',
      GIT_COMMITTER_NAME: 't',
      GIT_COMMITTER_EMAIL: 't@t',
    }
    const options = { cwd: folder, env: { ...process.env, ...identity }, maxBuffer: 1 << 28 }
    execFileSync('git', ['init', '-q', '-b', 'main', '--template=', '.'], options)
    execFileSync('git', ['-c', 'core.autocrlf=false', 'add', '-A'], options)
    execFileSync('git', ['commit', '-q', '-m', 'start'], options)
    return execFileSync('tar', ['--owner=0', '--group=0', '--numeric-owner', '-cf', '-', '.'], options)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export interface Player {
  sandbox: SandboxHandle
  /** Runs the next turn. */
  play(command: string, changes?: Partial<TurnRequest>): Promise<TurnResult & { text: string }>
  /** The request that `play` would send next; it counts as sent. */
  next(command: string, changes?: Partial<TurnRequest>): TurnRequest
}

/** Of an answer what is the same whenever it is asked for: the time is the asking worker's. */
export function untimed(result: TurnResult): TurnResult {
  return { ...result, wallMs: 0 }
}

/** The turns that were asked of a sandbox, by number. */
const asked = new WeakMap<SandboxHandle, Map<number, TurnMark>>()

/** What the sandbox has run last, as far as players of this handle asked for it. @param before only turns below this number */
export function lastTurn(sandbox: SandboxHandle, before = Number.POSITIVE_INFINITY): TurnMark | null {
  const marks = [...(asked.get(sandbox)?.values() ?? [])].filter(({ turn }) => turn < before)
  return marks.sort((one, other) => one.turn - other.turn).at(-1) ?? null
}

/** For a turn that something else must end: on a busy machine a shorter limit would come first, and the turn would say `timeout`. */
export const PATIENT = { timeoutMs: HANG_MS }

export function createPlayer(host: Pick<SandboxHost, 'runTurn'>, sandbox: SandboxHandle): Player {
  let turn = 0
  const next: Player['next'] = (command, changes = {}) => {
    const request = {
      turn,
      fence: 1,
      token: `token${turn}`,
      command,
      timeoutMs: 20_000,
      maxOutputBytes: 16_000,
      after: lastTurn(sandbox, changes.turn ?? turn),
      ...changes,
    }
    turn = request.turn + 1
    const marks = asked.get(sandbox) ?? new Map<number, TurnMark>()
    asked.set(sandbox, marks.set(request.turn, { turn: request.turn, token: request.token }))
    return request
  }
  return {
    sandbox,
    next,
    async play(command, changes) {
      const result = await host.runTurn(sandbox, next(command, changes), never)
      return { ...result, text: textOf(result) }
    },
  }
}

/** Looks into the sandbox beside the runner. */
export async function probe(
  { engine }: Pick<SandboxFixture, 'engine'>,
  { name }: Pick<SandboxHandle, 'name'>,
  command: string,
): Promise<string> {
  const exec = await engine.docker
    .getContainer(name)
    .exec({ Cmd: ['sh', '-c', `${command} 2>/dev/null`], AttachStdout: true, Tty: true, WorkingDir: '/' })
  const stream = await exec.start({ Tty: true })
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString().replaceAll('\r\n', '\n')
}

export async function untilTrue(condition: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(50)) if (await condition()) return
  assert.fail('the condition did not come true')
}

export function textOf({ head, tail }: Pick<TurnResult, 'head' | 'tail'>): string {
  return Buffer.concat([head, tail]).toString()
}

export function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code
}

/**
 * Gives each attack a sandbox of its own; afterwards the neighbour must still answer.
 * @param beside called for each attack, because both exist only after the hooks of the file
 */
export function attacksBeside(
  beside: () => { fixture: SandboxFixture; neighbour: Player },
  usual: SandboxLimits,
): (attack: (player: Player) => Promise<void>, limits?: SandboxLimits) => Promise<void> {
  let placement = 1
  return async (attack, limits = usual) => {
    const { fixture, neighbour } = beside()
    placement += 1
    const sandbox = await fixture.host.open(fixture.openInput({ placement, limits }), never)
    try {
      await attack(createPlayer(fixture.host, sandbox))
    } finally {
      await fixture.host.close(sandbox)
    }
    assert.equal((await neighbour.play('echo fine')).text, 'fine\n')
  }
}

/** A command that runs Python code. */
export function python(code: string): string {
  return `python3 - <<'EOF_PYTHON'\n${code}\nEOF_PYTHON`
}
