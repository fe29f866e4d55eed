/** Names of evaluations in a run: `base`, `rft`, `dapo-1`, `rl`; `dapo-1-0003` inside a stage; `rl.verified` on a further suite. */

/** `dapo-1-0003`: an evaluation after an iteration, inside a stage. */
export function isIntermediateEvaluation(evaluation: string): boolean {
  return /-\d{4}$/.test(evaluation)
}

/** `dapo-1` of `dapo-1-0003` and of `dapo-1.verified`. */
export function stageOfEvaluation(evaluation: string): string {
  const [name = ''] = evaluation.split('.')
  return name.replace(/-\d{4}$/, '')
}

export function evaluationName(stage: string, suite: string): string {
  return `${stage}.${suite}`
}

/** An evaluation on one of `evaluate.suites`: reported, and never what a run is steered or promoted by. */
export function isAdditionalSuite(evaluation: string): boolean {
  return evaluation.includes('.')
}
