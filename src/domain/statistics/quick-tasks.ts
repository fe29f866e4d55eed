/** Evaluations inside a stage may play fewer tasks than those between stages. Comparisons between them use these tasks only. */

/** @param quick the recipe's list; null or absent (in older recipes) means all */
export function onlyQuick<T extends { taskId: string }>(
  tasks: readonly T[],
  quick: readonly string[] | null | undefined,
): T[] {
  if (quick === null || quick === undefined) return [...tasks]
  const wanted = new Set(quick)
  return tasks.filter(({ taskId }) => wanted.has(taskId))
}
