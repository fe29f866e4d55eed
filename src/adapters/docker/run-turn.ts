import type { SandboxHandle, TurnRequest, TurnResult } from '../../contracts/sandbox.types.ts'
import { packFiles } from './tar.ts'
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
  const { line, upload } = encodeTurn(request)
  if (upload !== null) {
    const file = await packFiles([{ name: request.token, body: upload, mode: 0o600 }])
    await context.engine.docker.getContainer(sandbox.name).putArchive(file, { path: '/.lh/in' })
  }
  const timeoutMs = request.timeoutMs + OUTER_SLACK_MS
  return parseTurn(await context.runners.request({ name: sandbox.name, line, timeoutMs, signal }))
}
