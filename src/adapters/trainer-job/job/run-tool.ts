import { execFile, type ExecFileException } from 'node:child_process'
import { LonghaulError } from '../../../contracts/errors.ts'

export interface ToolResult {
  code: number
  stdout: string
  stderr: string
}

export interface ToolInput {
  /** For the tool's standard input. */
  input?: string | undefined
  /** @default the worker's own */
  env?: NodeJS.ProcessEnv
}

/** Schedulers answer within seconds, or are so busy that a later retry is better. */
export const TOOL_DEADLINE_MS = 60_000

/**
 * Runs a scheduler's command to its end. The caller judges a non-zero exit code.
 * @throws LonghaulError `Trainer.Unavailable` if the program is missing or does not end
 */
export function runTool(
  tool: string,
  args: string[],
  { input = '', env = process.env }: ToolInput = {},
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      tool,
      args,
      { timeout: TOOL_DEADLINE_MS, maxBuffer: 16 * 1024 * 1024, env: withoutFilters(env) },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code
        if (typeof code === 'number') resolve({ code, stdout, stderr })
        else reject(unavailable(tool, whyNoEnd(tool, error, stderr), error, { refused: code === 'ENOENT' }))
      },
    )
    // A tool that exits without reading its input reports the reason by its exit code.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(input)
  })
}

/**
 * In a person's environment these variables change what Slurm's commands answer, and override a script's own lines: with SQUEUE_PARTITION,
 * `squeue` says of a job that runs elsewhere that there is none, and with SBATCH_JOB_NAME nothing keeps a second job from running.
 */
const FILTERS =
  /^(?:SQUEUE_|SACCT_|SCANCEL_|SLURM_CLUSTERS$|SBATCH_(?:ARRAY_INX|CLUSTERS|JOB_NAME|OPEN_MODE|REQUEUE|SIGNAL|TIMELIMIT|WAIT)$)/

function withoutFilters(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !FILTERS.test(name)))
}

/** Returns whether the request may have arrived and been carried out in spite of the error. */
export function isUncertain(stderr: string): boolean {
  return UNCERTAIN.test(stderr)
}

const UNCERTAIN = /time(?:d)?[ -]?out|deadline|unable to contact|connection|unreachable|eof/i

function whyNoEnd(tool: string, error: ExecFileException | null, stderr: string): string {
  if (error?.code === 'ENOENT') return `there is no program ${tool} on the PATH of the trainer worker: install it there`
  // A tool that retries says what it waits for, for example for its configuration file.
  const said = stderr.trim() === '' ? '' : `: ${stderr.trim().slice(-500)}`
  if (error?.killed === true) return `it did not end within ${TOOL_DEADLINE_MS / 1000} s${said}`
  return error?.message ?? ''
}

function unavailable(tool: string, why: string, cause?: unknown, details: { refused?: boolean } = {}): LonghaulError {
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected an answer from ${tool}: ${why}`,
    details: { tool, ...details },
    cause,
  })
}
