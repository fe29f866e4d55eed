import {
  auditGrading,
  type Graded,
  type GradingDependencies,
  runGrading,
  type RunGradingInput,
} from '../../../src/activities/grading/run-grading.ts'

/** Grades, and audits also a patch that resolves nothing: an attack that fails in the official steps may have a variant that does not. */
export async function gradeAndAudit(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<Graded> {
  const graded = await runGrading(deps, input, signal)
  return graded.audit === undefined ? { ...graded, audit: await auditGrading(deps, input, signal) } : graded
}
