/** A mean over tasks with its standard error. */
interface TaskMean {
  mean: number
  sem: number
  tasks: number
}

/** `0.484 ± 0.044`; one task has no standard error. */
export function showMean({ mean, sem, tasks }: TaskMean, digits = 3): string {
  return `${mean.toFixed(digits)} ${tasks < 2 ? '(one task: no SEM)' : `± ${sem.toFixed(digits)}`}`
}
