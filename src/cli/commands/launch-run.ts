import type { LonghaulConnection, RunHandle } from '../../client/index.ts'
import type { CommandContext } from '../command-context.ts'
import { type Console, describeFailure } from '../output/console.ts'
import { EXIT, type ExitCode, exitCodeOfOutcome } from '../output/exit-codes.ts'
import { announceClosing, announceDetached, concludeDetached, type Followed, followRun } from './follow-run.ts'
import { withConnection } from '../local-stack.ts'
import type { RunOptions } from '../arguments/options.ts'

/** Options common to every kind of run. */
export interface LaunchRequest {
  connection: LonghaulConnection
  run?: string
  fresh: boolean
  onClosing: (workflowId: string) => void
}

/** Prints the result of a completed run and returns the command's exit code; receives 0, or 130 after a Ctrl-C. */
export type Conclude<T> = (result: T, exitCode: ExitCode) => Promise<ExitCode>

export interface LaunchInput<T> {
  options: RunOptions
  context: CommandContext
  start: (request: LaunchRequest) => Promise<RunHandle<T>>
  conclude: Conclude<T>
}

/** Starts a run and follows it to its end, or only prints its id with `--detach`. */
export async function launchRun<T>({ options, context, start, conclude }: LaunchInput<T>): Promise<void> {
  const { console, exit } = context
  const { run, onInterrupt } = options
  const json = options.json === true
  await withConnection(async (connection) => {
    const handle = await start({
      connection,
      ...(run === undefined ? {} : { run }),
      fresh: options.fresh === true,
      onClosing: announceClosing(console),
    })
    if (options.detach === true) {
      await announceDetached(handle, { console, json })
      return
    }
    const followed = await followRun({ handle, console, json, onInterrupt })
    exit(await concludeRun({ followed, console, json, conclude }))
  })
}

export interface ConcludeInput<T> {
  followed: Followed<T>
  console: Console
  json: boolean
  conclude: Conclude<T>
}

/** Ends a command after a followed run; every command reports an incomplete run in the same way. */
export async function concludeRun<T>({ followed, console, json, conclude }: ConcludeInput<T>): Promise<ExitCode> {
  if (followed.kind === 'detached') return concludeDetached(console, json)
  const { outcome, interrupted } = followed
  const exitCode = interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
  if (outcome.status === 'completed') return conclude(outcome.result, exitCode)
  if (json) console.record({ event: 'done', exitCode, outcome })
  console.err(describeFailure(outcome))
  return exitCode
}
