import type { SandboxHandle, SandboxHost, TurnRequest, TurnResult } from '../../../contracts/sandbox.types.ts'
import type { RelayPool } from './relay/relay-pool.ts'
import type { RunnerPool } from './runner-pool.ts'
import {
  MAX_TREE_BYTES,
  encodeCapture,
  encodeInit,
  encodeTree,
  encodeTurn,
  parseCapture,
  parseReady,
  parseTree,
  parseTurn,
} from './runner-wire.ts'

/** git can be slow on a large repository. */
const CAPTURE_TIMEOUT_MS = 180_000
/** Of processors, for one capture or one hash of a tree: what Git takes for about 3 GB of new files. */
const GIT_CPU_MS = 60_000
const STATE_TIMEOUT_MS = 60_000
/** Larger than grading accepts. The limit only protects the worker's memory, which many sandboxes share, from a hostile patch. */
const MAX_PATCH_BYTES = 8 * 1024 * 1024
/** The sandbox waits 5 s between TERM and KILL; the rest is slack for an overloaded machine. */
const OUTER_SLACK_MS = 45_000

interface RunnerOperationsInput {
  runners: RunnerPool
  relays: RelayPool
  log(message: string, facts: Record<string, string | number>): void
  /** Runs an operation on an open sandbox. Adds the operation's name to failures and maps them to their codes. */
  around<T>(doing: string, name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  beforeTurn?: (name: string) => Promise<void>
}

/** The operations that a runner offers, independent of where its sandbox runs. */
export function createRunnerOperations({
  runners,
  relays,
  log,
  around,
  beforeTurn = async () => undefined,
}: RunnerOperationsInput): Pick<SandboxHost, 'runTurn' | 'renew' | 'initialState' | 'capture' | 'treeHash'> {
  return {
    runTurn: (sandbox, request, signal) =>
      around('running a turn', sandbox.name, signal, async () => {
        await beforeTurn(sandbox.name)
        return runTurn({ runners, relays, log }, sandbox, request, signal)
      }),
    renew: (sandbox, signal) =>
      around('renewing a lease', sandbox.name, signal, async () => {
        // The runner renews the lease on every request, so this request only queries the state.
        await runners.request({ name: sandbox.name, line: encodeInit(null), timeoutMs: STATE_TIMEOUT_MS, signal })
      }),
    initialState: (sandbox, signal) =>
      around('reading the state', sandbox.name, signal, async () => {
        const request = { name: sandbox.name, line: encodeInit(null), timeoutMs: STATE_TIMEOUT_MS, signal }
        return parseReady(await runners.request(request)).state
      }),
    capture: (sandbox, { mode, after }, signal) =>
      around('capturing the patch', sandbox.name, signal, async () => {
        const { name, startCommit } = sandbox
        const line = encodeCapture({ mode, startCommit, maxBytes: MAX_PATCH_BYTES, after, cpuMs: GIT_CPU_MS })
        const request = { name, line, timeoutMs: CAPTURE_TIMEOUT_MS, maxBodyBytes: MAX_PATCH_BYTES, signal }
        return parseCapture(await runners.request(request))
      }),
    treeHash: (sandbox, after, signal) =>
      around('hashing the tree', sandbox.name, signal, async () => {
        const { name, startCommit } = sandbox
        const line = encodeTree({ startCommit, after, cpuMs: GIT_CPU_MS })
        const request = { name, line, timeoutMs: CAPTURE_TIMEOUT_MS, maxBodyBytes: MAX_TREE_BYTES, signal }
        return parseTree(await runners.request(request))
      }),
  }
}

async function runTurn(
  { runners, relays, log }: Pick<RunnerOperationsInput, 'runners' | 'relays' | 'log'>,
  sandbox: SandboxHandle,
  request: TurnRequest,
  signal: AbortSignal,
): Promise<TurnResult> {
  const { name, allowedHosts } = sandbox
  const line = encodeTurn(request)
  // The network was opened with the sandbox. If it cannot be opened again, either the agent has broken it or the engine reports an
  // error.
  if (allowedHosts !== undefined) {
    await relays.ensure({ name, allowedHosts }).catch((error: unknown) => {
      log('sandbox network: not open', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
    })
  }
  const timeoutMs = request.timeoutMs + OUTER_SLACK_MS
  const reply = await runners.request({ name, line, timeoutMs, maxBodyBytes: request.maxOutputBytes, signal })
  const result = parseTurn(reply, reply.tookMs)
  const network = relays.takeUse(name)
  return network === undefined ? result : { ...result, network }
}
