import type { SandboxHandle, TurnRequest, TurnResult } from '../../../contracts/sandbox.types.ts'
import { encodeTurn, parseTurn } from './runner-protocol.ts'
import type { SandboxContext } from './sandbox-context.ts'

/** TERM to KILL takes 5 s in the sandbox; the rest is for a machine under load. */
const OUTER_SLACK_MS = 45_000

export async function runTurn(
  context: SandboxContext,
  sandbox: SandboxHandle,
  request: TurnRequest,
  signal: AbortSignal,
): Promise<TurnResult> {
  const line = encodeTurn(request)
  await connectNetwork(context, sandbox)
  const timeoutMs = request.timeoutMs + OUTER_SLACK_MS
  const maxBodyBytes = request.maxOutputBytes
  const result = parseTurn(await context.runners.request({ name: sandbox.name, line, timeoutMs, maxBodyBytes, signal }))
  const network = context.relays.takeUse(sandbox.name)
  return network === undefined ? result : { ...result, network }
}

/** It was open when the sandbox was: where it cannot be opened again, the agent has broken it, or the engine says so itself. */
async function connectNetwork({ relays, log }: SandboxContext, { name, allowedHosts }: SandboxHandle): Promise<void> {
  if (allowedHosts === undefined) return
  try {
    await relays.ensure({ name, allowedHosts })
  } catch (error) {
    log('sandbox network: not open', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
  }
}
