/** Evaluations inside a stage may play fewer tasks than those between stages: what is compared then is compared on these. */

/** @param quick the recipe's; null or absent (in recipes of before it existed) = all */
export function onlyQuick<T extends { taskId: string }>(
  tasks: readonly T[],
  quick: readonly string[] | null | undefined,
): T[] {
  if (quick === null || quick === undefined) return [...tasks]
  const wanted = new Set(quick)
  return tasks.filter(({ taskId }) => wanted.has(taskId))
}
