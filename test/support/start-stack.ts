import { setTimeout as sleep } from 'node:timers/promises'

import { LonghaulError } from '../../src/contracts/errors.ts'
import { down, type DownResult } from '../../src/stack/down.ts'
import { stackEnvironment, type StackFacts } from '../../src/stack/environment.ts'
import { isAlive, signalGroup } from '../../src/platform/processes.ts'
import { readStackRecord, type ServiceRecord } from '../../src/stack/stack-record.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import type { WorkerRole } from '../../src/stack/services.ts'
import { up } from '../../src/stack/up.ts'

export interface StartStackInput {
  name: string
  /** Home of the stack's data, like LONGHAUL_HOME. */
  home: string
  roles?: readonly WorkerRole[]
  /** @default true, even if LONGHAUL_POLICY_URL is set */
  policyServer?: boolean
  /** Storage of its Temporal, like `--temporal`. @default the development server's file */
  temporal?: string | undefined
  /** @default false: set-up lines go to stderr */
  quiet?: boolean
  signal?: AbortSignal
}

export interface RunningStack {
  name: string
  temporalAddress: string
  namespace: string
  uiUrl: string | null
  policyUrl: string
  artifactsDir: string
  dockerHost: string | null
  /** Variables that point a process at this stack. */
  environment: Record<string, string>
  /** By service name: `temporal`, `policy-server`, `worker-sandbox`, ... */
  pids(): Promise<Record<string, number>>
  /** Kills a service's process group like a crash; the supervisor restarts it. Resolves when it is ready again.
   *  @returns the new process id */
  kill(service: string, signal?: NodeJS.Signals): Promise<number>
  stop(): Promise<DownResult>
}

/** A stack for tests and programs: `up` with a handle. The caller stops it in `finally`. */
export async function startStack(input: StartStackInput): Promise<RunningStack> {
  const { name, home } = input
  const { stack } = await up({
    name,
    home,
    ...(input.roles === undefined ? {} : { roles: input.roles }),
    policyServer: input.policyServer ?? true,
    temporal: input.temporal,
    ...(input.quiet === true ? { log: () => undefined } : {}),
    signal: input.signal,
  })
  return runningStack({ name, home, facts: stack.facts })
}

/** A handle on a stack that another process started and will stop; null if none runs. It starts and restarts nothing: a process of
 *  the stack finds name and home in its LONGHAUL_STACK and LONGHAUL_HOME. */
export async function attachStack({ name, home }: { name: string; home: string }): Promise<RunningStack | null> {
  const record = await readStackRecord(stackPaths({ name, home }).recordFile)
  return record === null || !isAlive(record.supervisor) ? null : runningStack({ name, home, facts: record.facts })
}

function runningStack({ name, home, facts }: { name: string; home: string; facts: StackFacts }): RunningStack {
  const { recordFile } = stackPaths({ name, home })
  const services = async (): Promise<ServiceRecord[]> => (await readStackRecord(recordFile))?.services ?? []
  return {
    name,
    temporalAddress: facts.temporalAddress,
    namespace: facts.namespace,
    uiUrl: facts.uiUrl,
    policyUrl: facts.policyUrl,
    artifactsDir: facts.artifactsDir,
    dockerHost: facts.dockerHost,
    environment: stackEnvironment(facts),
    pids: async () =>
      Object.fromEntries(
        (await services()).flatMap(({ name: service, process: identity }) =>
          identity === null ? [] : [[service, identity.pid] as const],
        ),
      ),
    kill: (service, signal = 'SIGKILL') => killAndWait({ services, service, signal }),
    stop: () => down({ name, home }),
  }
}

async function killAndWait(input: {
  services: () => Promise<ServiceRecord[]>
  service: string
  signal: NodeJS.Signals
}): Promise<number> {
  const find = async (): Promise<ServiceRecord | undefined> =>
    (await input.services()).find(({ name }) => name === input.service)
  const before = (await find())?.process
  if (before === null || before === undefined) {
    throw new LonghaulError({ code: 'Config.Invalid', message: `Expected a running service named ${input.service}` })
  }
  signalGroup(before, input.signal)
  const deadline = Date.now() + 60_000
  for (;;) {
    const now = await find()
    if (now?.state === 'ready' && now.process !== null && now.process.pid !== before.pid) return now.process.pid
    if (Date.now() > deadline) {
      throw new LonghaulError({ code: 'Stack.SetupFailed', message: `${input.service} did not come back within 60 s` })
    }
    await sleep(100)
  }
}
