import type { Dependency } from '../../contracts/waits.types.ts'
import { placeOfWorkflow, type WorkflowPlace } from '../../contracts/workflow-ids.ts'
import { adviceFor } from './advice.ts'
import type { Finding } from './judge-activity.ts'

/** One thing that a run waits for. */
export interface Blocker {
  /** Whom it waits for. */
  on: Dependency
  /** What stands still, in the present: `sampling from v000012-0123abcd`. */
  doing: string
  /** ISO time; of the one that has waited longest. */
  since: string
  /** For whom: the one that has waited longest. */
  for: WorkflowPlace & { workflowId: string; activity: string | null; attempt: number }
  /** How many activities wait for the same. */
  count: number
  /** Last error of the one that has waited longest. `code` is null for what Temporal itself noticed. */
  error: { code: string | null; message: string } | null
  /** What a person can do. */
  toDo: string
}

/** A thousand episodes that wait for one server are one blocker: the oldest stands for all. Oldest first. */
export function groupFindings(findings: readonly Finding[]): Blocker[] {
  const groups = new Map<string, Finding[]>()
  for (const finding of findings) {
    const key = [finding.on.kind, finding.on.name, finding.error?.code ?? ''].join('\n')
    groups.set(key, [...(groups.get(key) ?? []), finding])
  }
  return [...groups.values()].map(toBlocker).toSorted((a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0))
}

function toBlocker(findings: Finding[]): Blocker {
  const oldest = findings.reduce((a, b) => (b.sinceMs < a.sinceMs ? b : a))
  const { on, doing, sinceMs, workflowId, activity, attempt, error } = oldest
  return {
    on,
    doing,
    since: new Date(sinceMs).toISOString(),
    for: { workflowId, ...placeOfWorkflow(workflowId), activity, attempt },
    count: findings.length,
    error,
    toDo: adviceFor(on, error?.code ?? null),
  }
}
