/**
 * RFT and DAPO with a live engine on the trainer's own GPU: sleep, train, wake, reload, canary, in every iteration. One run spans
 * several pieces: a piece starts the stack, lets the run continue and stops the stack again, as if the machine were taken away; the
 * next piece continues the run from its records. Without a GPU, the embedded server and a run of one iteration go through the same
 * steps.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fleetsRoot, openFleets } from '../../../src/adapters/engines/fleets.ts'
import { connect, startTraining } from '../../../src/client/index.ts'
import type { TrainAgentResult } from '../../../src/contracts/workflows.types.ts'
import { withDirectoryLock } from '../../../src/platform/directory-lock.ts'
import { exists, writeFileAtomically } from '../../../src/platform/files.ts'
import { requireCommand, runCommand } from '../../../src/platform/run-command.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { findPython } from '../../../src/stack/setup/python-env.ts'
import { namespaceIdOf } from '../../../src/workers/workflow-owners.ts'
import { startStack } from '../../../test/support/start-stack.ts'
import { type GpuWorld, minutesOf } from './trainer-pieces.ts'
import type { Piece, PieceResult } from './pieces.ts'

const PIECES = 4
/** Minutes of ten; the rest is for starting and stopping the stack in each piece. */
const PLAY_MINUTES = 7.5
/** Without a GPU the run is small, but may still take long on a busy CPU. */
const DRY_PLAY_MINUTES = 45
const RUN = 'bench-gpu'

/** The only requirement on the run's results: at least the base, RFT and the policy of one iteration. */
const LEAST_POLICIES = 3

const DRY_RECIPE = {
  data: { train: { count: 4 }, heldOut: { count: 1 } },
  rft: { tasks: 4, rolloutsPerTask: 4 },
  reinforce: {
    groupSize: 2,
    stages: [
      {
        name: 'dapo-1',
        context: 640,
        maxTurns: 4,
        penaltyStart: 3,
        problemsPerIteration: 2,
        batch: 2,
        clip: { low: 0.2, high: 0.28 },
        until: { maxIterations: 1 },
      },
    ],
  },
  evaluate: { tasks: 1, maxTurns: 4 },
}

export function livePieces(world: GpuWorld): Piece[] {
  const engine: Piece = {
    name: 'set-up/engine',
    minutes: minutesOf(world.device),
    async run(signal) {
      if (world.device === null) return { compared: 0, violations: [], facts: { engine: 'embedded' } }
      const { packages } = await installVllm(signal)
      return { compared: 0, violations: [], facts: { engine: VLLM, packages } }
    },
  }
  const plays = Array.from({ length: PIECES }, (_, index): Piece => {
    const before = index === 0 ? ['set-up/trainer', engine.name] : [`run/${index}`]
    return {
      name: `run/${index + 1}`,
      after: before,
      minutes: minutesOf(world.device),
      run: (signal) => play({ world, signal, isLast: index + 1 === PIECES }),
    }
  })
  return [engine, ...plays]
}

/** The version with which requests and routes were tested. */
const VLLM = 'vllm==0.33.0'

/**
 * The program `vllm` in its own environment, because it pins another torch than the trainer. Only vLLM's own version is pinned; the
 * registry chooses its dependencies, and the piece records the versions that it got.
 */
async function installVllm(signal: AbortSignal): Promise<{ program: string; packages: string[] }> {
  const folder = join(stackPaths().cacheDir, 'python', `${VLLM.replace('==', '-')}-gpu`)
  const python = join(folder, 'bin', 'python')
  const packages = join(folder, 'PACKAGES')
  await withDirectoryLock({ path: `${folder}.lock`, signal }, async () => {
    if (await exists(packages)) return
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true })
    const base = await findPython()
    if (base === null) throw new Error('Expected Python 3.11 or newer, found none')
    const limits = { timeoutMs: 10 * 60_000, signal }
    await requireCommand({
      what: 'Making the environment of vLLM',
      command: base.path,
      args: ['-m', 'venv', folder],
      ...limits,
    })
    const pip = ['-m', 'pip', '--disable-pip-version-check', '--no-input']
    await requireCommand({
      what: `Installing ${VLLM}`,
      command: python,
      args: [...pip, 'install', '--quiet', VLLM],
      ...limits,
    })
    const { stdout } = await runCommand({ command: python, args: [...pip, 'freeze'], ...limits })
    // Written last: its existence marks the environment as complete.
    await writeFileAtomically(packages, stdout)
  })
  return { program: join(folder, 'bin', 'vllm'), packages: (await readFile(packages, 'utf8')).trim().split('\n') }
}

async function play({
  world: { device, scratch },
  signal,
  isLast,
}: {
  world: GpuWorld
  signal: AbortSignal
  isLast: boolean
}): Promise<PieceResult> {
  const home = join(scratch, 'home')
  await mkdir(home, { recursive: true })
  const playing = new AbortController()
  const over = AbortSignal.any([
    signal,
    playing.signal,
    AbortSignal.timeout((device === null ? DRY_PLAY_MINUTES : PLAY_MINUTES) * 60_000),
  ])
  const input = device === null ? dryInput() : liveInput((await installVllm(signal)).program)
  const stack = await startStack({ name: RUN, home, policyServer: false, quiet: true, signal })
  try {
    // Not into this process's environment: the next piece's stack would look for this piece's engine, which has ended by then.
    const connection = await connect({ env: { ...process.env, ...stack.environment } })
    try {
      const namespaceId = await namespaceIdOf(connection.client.connection, connection.namespace)
      const fleets = openFleets(fleetsRoot(stack.environment['LONGHAUL_ENGINES'] ?? '', namespaceId ?? ''))
      const handle = await startTraining({ connection, ...input, run: RUN })
      const processes = new Set<number>()
      const watching = watchEngines({ fleets, processes, signal: over })
      // A failure of the watch ends the piece where the watch is awaited, after the run.
      watching.catch(() => undefined)
      let ended: TrainAgentResult | null = null
      let phase = 'starting'
      for await (const event of handle.watch({ intervalMs: 1_000, signal: over })) {
        if (event.kind === 'progress') phase = event.progress?.phase ?? phase
        if (event.kind !== 'closed') continue
        if (event.outcome.status !== 'completed') throw new Error(`the run ended as ${JSON.stringify(event.outcome)}`)
        ended = event.outcome.result
        break
      }
      signal.throwIfAborted()
      playing.abort()
      await watching
      const enginesStarted = processes.size
      if (ended === null) {
        if (isLast) throw new Error(`the run did not end within ${PIECES} pieces, it was ${phase}`)
        return { compared: 0, violations: slept(device !== null, enginesStarted), facts: { phase, enginesStarted } }
      }
      return judgeRun({ ended, enginesStarted, isLive: device !== null })
    } finally {
      // Otherwise the watch of the engines keeps the process alive until the play time is over.
      playing.abort()
      await connection.close()
    }
  } finally {
    await stack.stop()
  }
}

function dryInput(): { recipe: string; overrides: Record<string, unknown> } {
  return {
    recipe: 'mini',
    overrides: { ...DRY_RECIPE, policyServer: { kind: 'embedded', launch: { placement: 'shared' } } },
  }
}

/** The policy is small, so the engine needs little of the GPU; asleep it releases everything except its weights. */
function liveInput(program: string): { recipe: string; overrides: Record<string, unknown> } {
  const launch = {
    placement: 'shared',
    program,
    arguments: ['--gpu-memory-utilization', '0.6', '--max-num-seqs', '64'],
  }
  return {
    recipe: 'demo',
    overrides: { policyServer: { kind: 'vllm', launch }, trainer: { device: 'cuda', exportDtype: 'bfloat16' } },
  }
}

async function watchEngines({
  fleets,
  processes,
  signal,
}: {
  fleets: ReturnType<typeof openFleets>
  processes: Set<number>
  signal: AbortSignal
}): Promise<void> {
  while (!signal.aborted) {
    const state = await fleets.look(RUN)
    for (const { phase, process: one } of state?.engines ?? []) {
      if (phase === 'serving' && one !== null) processes.add(one.pid)
    }
    await sleep(250, undefined, { signal }).catch(() => undefined)
  }
}

function slept(isLive: boolean, enginesStarted: number): string[] {
  return isLive && enginesStarted > 1 ? [`the engine was started ${enginesStarted} times: it did not sleep`] : []
}

/** Publishing checks version, canary and sampling each time, so a finished run has proven all its policies. */
export function judgeRun({
  ended,
  enginesStarted,
  isLive,
}: {
  ended: Pick<TrainAgentResult, 'stages'>
  enginesStarted: number
  isLive: boolean
}): PieceResult {
  const policies = new Set(ended.stages.map(({ policy }) => policy)).size
  const violations = slept(isLive, enginesStarted)
  if (policies < LEAST_POLICIES) {
    violations.push(`${policies} policies were evaluated, base, RFT and reinforcement make ${LEAST_POLICIES}`)
  }
  const stages = ended.stages.map(({ name, passAt1, sem, tasks }) => ({ name, passAt1, sem, tasks }))
  return { compared: policies, violations, facts: { stages, policies, enginesStarted } }
}
