import { isLonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import { ExitError } from './exit-codes.ts'
import type { Console } from './console.ts'
import type { RunOutcome } from '../../client/index.ts'

/** Prints the code and the message, which says what failed and how to fix it. The stack trace only helps developers of Longhaul. */
export function printError(error: unknown, { console, json }: { console: Console; json: boolean }): void {
  if (error instanceof ExitError) return
  const known = isLonghaulError(error) ? error : toLonghaulError(error)
  if (json) console.record({ event: 'error', code: known.code, message: known.message })
  console.err(`error ${known.code}: ${known.message}`)
  if ((process.env['LONGHAUL_DEBUG'] ?? '') !== '') {
    for (let link: unknown = error; link instanceof Error; link = link.cause) console.err(link.stack ?? String(link))
  } else if (known.code === 'Unexpected') {
    console.err('      set LONGHAUL_DEBUG=1 to see where it came from')
  }
}

export function describeFailure(outcome: Exclude<RunOutcome<unknown>, { status: 'completed' }>): string {
  switch (outcome.status) {
    case 'failed':
      return `error ${outcome.code}: ${outcome.message}`
    case 'cancelled':
      return 'the run was cancelled'
    case 'terminated':
      return `the run was terminated: ${outcome.message}`
    case 'timed-out':
      return `the run took longer than it may: ${outcome.message}`
  }
}
