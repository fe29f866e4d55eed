import {
  auditGrading,
  type Graded,
  type GradingDependencies,
  runGrading,
  type RunGradingInput,
} from '../../../src/activities/grading/run-grading.ts'

/** Grades, and audits even a patch that resolves nothing, because a variant of an attack may pass the official steps. */
export async function gradeAndAudit(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<Graded> {
  const graded = await runGrading(deps, input, signal)
  return graded.audit === undefined ? { ...graded, audit: await auditGrading(deps, input, signal) } : graded
}
