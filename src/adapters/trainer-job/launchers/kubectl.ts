/** Requests to a cluster through `kubectl` with the worker's own credentials, and advice for its refusals. */
import { LonghaulError } from '../../../contracts/errors.ts'
import { remedyFor } from '../../kubernetes/remedies.ts'
import { isUncertain, runTool, type ToolResult } from '../job/run-tool.ts'

export interface KubectlInput {
  /** Names the request in errors: `create Job x in namespace y`. */
  purpose: string
  args: string[]
  input?: string
}

/** Runs kubectl to its end. The caller judges a non-zero exit code. @throws LonghaulError `Trainer.Unavailable` if kubectl cannot be
 *  run */
export function runKubectl({ args, input }: Omit<KubectlInput, 'purpose'>): Promise<ToolResult> {
  return runTool('kubectl', args, input)
}

/** @throws LonghaulError `Trainer.Unavailable` for every non-zero exit code, with `refused` if the request certainly had no effect */
export async function askKubectl(input: KubectlInput): Promise<string> {
  const { code, stdout, stderr } = await runKubectl(input)
  if (code === 0) return stdout
  throw kubectlRefusal(input.purpose, stderr)
}

export function kubectlRefusal(purpose: string, stderr: string): LonghaulError {
  const said = stderr.trim().slice(-800)
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected to ${purpose}: ${said}${remedyFor(said, 'trainer')}`,
    details: { tool: 'kubectl', refused: !isUncertain(said) },
  })
}

export function isNotFound(stderr: string): boolean {
  return /\(NotFound\)/.test(stderr)
}
