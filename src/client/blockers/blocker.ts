import type { Dependency } from '../../contracts/waits.types.ts'
import { QUEUES } from '../../contracts/workflow-ids.ts'
import type { Finding } from './judge-activity.ts'

/** Position of a workflow in a run, parsed from its id; null for parts that the id lacks. */
interface Coordinates {
  stage: string | null
  iteration: number | null
  task: string | null
  episode: number | null
}

/** Parses the ids of `workflow-ids.ts`. Any other id gives only nulls. */
export function coordinatesOf(workflowId: string): Coordinates {
  const [, stage, iteration, task, episode] =
    /^(?:train|eval|gate)\/[^/]+\/((?:gate\/|eval\/)?[^/]+)(?:\/(\d{4})(?:\/refill\/\d+)?)?(?:\/task\/(.+?))?(?:\/ep\/(\d+))?$/.exec(
      workflowId,
    ) ?? []
  return {
    stage: stage ?? null,
    iteration: iteration === undefined ? null : Number(iteration),
    task: task ?? null,
    episode: episode === undefined ? null : Number(episode),
  }
}

/** One thing that a run waits for. */
export interface Blocker {
  /** The dependency. */
  on: Dependency
  /** The blocked work, for example `sampling from v000012-0123abcd`. */
  doing: string
  /** ISO time since which the oldest activity has waited. */
  since: string
  /** The activity that has waited longest. */
  for: Coordinates & { workflowId: string; activity: string | null; attempt: number }
  /** Number of activities that wait for the same dependency. */
  count: number
  /** Last error of the oldest activity. `code` is null for failures that Temporal detected. */
  error: { code: string | null; message: string } | null
  /** Remedy for an operator. */
  toDo: string
}

/** Merges all waits for one dependency into one blocker, represented by the oldest. Oldest first. */
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
  const { on, doing, sinceMs, workflowId, activity, attempt, error, toDo } = oldest
  return {
    on,
    doing,
    since: new Date(sinceMs).toISOString(),
    for: { workflowId, ...coordinatesOf(workflowId), activity, attempt },
    count: findings.length,
    error,
    toDo: toDo === undefined ? adviceFor(on, error?.code ?? null) : commandsOf(findings, toDo),
  }
}

/** Of one blocker; further ones are named once these are cured. */
const MOST_COMMANDS = 3

/** A person may have paused several parts, each of which has its own command. */
function commandsOf(findings: readonly Finding[], first: string): string {
  const commands = [...new Set([first, ...findings.flatMap(({ toDo }) => (toDo === undefined ? [] : [toDo]))])]
  const left = commands.length - MOST_COMMANDS
  const named = commands.slice(0, MOST_COMMANDS).join('; ')
  return left > 0 ? `${named}; and ${left} more like these` : named
}

/** Failures with a remedy of their own instead of their dependency's. */
const BY_CODE: Readonly<Record<string, string>> = {
  'Artifact.OutOfDisk': 'free disk space in the artifact store (df); the operation is retried automatically',
  'Host.Closed':
    'return a host to work (longhaul host uncordon HOST), or start a sandbox worker on another machine; the run continues automatically',
  'Model.Busy':
    'another run holds the server: wait for it, stop it (longhaul run stop), or give this run a server of its own',
  'Model.RateLimited': 'wait, lower the number of open groups in the recipe, or raise the limit of the server',
  'Model.NotServed':
    'serve the policy that the message names; longhaul up serves all of them. If its publishPolicy was completed by hand: cancel the run and start it again, which publishes the policy',
  'Sandbox.OutOfDisk': 'free disk space on the host (docker system df); the next attempt then continues',
  'Trainer.Stalled':
    'nothing: the job continues from its last step. If it stalls again, read stdout.log of the job, or raise trainer.stallS',
  'Trainer.OutOfMemory': 'lower trainer.maxTokensPerMicro in the recipe, or use a bigger machine',
  'Trainer.NotStarted':
    'what stands behind the arrow in the error. The job stays in its queue and starts by itself; after a week it is withdrawn',
  'Trainer.Unavailable':
    'what stands behind the arrow in the error. Without one: check that the interpreter that LONGHAUL_PYTHON names starts, or stop the trainer on the other host',
}

/** Remedy for a wait, in one line. */
export function adviceFor(on: Dependency, code: string | null): string {
  return BY_CODE[code ?? ''] ?? byDependency(on)
}

function byDependency({ kind, name }: Dependency): string {
  switch (kind) {
    case 'policy-server':
      return `check whether ${name} answers (curl ${name.replace(/\/$/, '')}/v1/models) and restart it; the run continues automatically`
    case 'engine':
      return 'check whether the engine answers (docker version on that host) and restart it; episodes continue automatically'
    case 'host':
      return 'nothing: this sandbox opens when another sandbox ends. More hosts, a smaller sandbox.request or a smaller rollout.maxOpenEpisodes shorten such waits'
    case 'trainer':
      return 'read stdout.log and progress.jsonl of the job; after trainer.stallS without progress the job is stopped and resumed from its last step'
    case 'artifact-store':
      return name.startsWith('s3://')
        ? 'check whether the bucket accepts the credentials of the workers (longhaul doctor with their variables); the operation is retried automatically'
        : 'check the disk or mount (df, dmesg); the operation is retried automatically'
    case 'worker':
      return `start a worker for it: ${workerCommand(name)}`
    case 'person':
      return 'decide'
    case 'workflow':
      return 'inspect the workflow in the Temporal UI and read the log of the control worker'
  }
}

/** Command that serves a queue: `longhaul worker --role …`. The sandbox role of a host serves that host's queue. */
function workerCommand(queue: string): string {
  const [role, host] = queue.split('.')
  if (host === undefined) return `longhaul worker --role ${role === QUEUES.placement ? 'sandbox' : role}`
  return `longhaul worker --role sandbox on ${host}; after two minutes without it the episode is placed on another host`
}
