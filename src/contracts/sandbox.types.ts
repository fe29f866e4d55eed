import type { AuditPlan, AuditRun } from './audit.types.ts'
import type { SandboxState } from './episodes.types.ts'

/** A sandbox as workflows and records know it: small, serialisable, valid in any process of the same host. */
export interface SandboxHandle {
  /** Deterministic container name, which makes creation idempotent. */
  name: string
  containerId: string
  image: string
  imageDigest: string
  /** Task queue of the host that runs the container. */
  hostQueue: string
  repoDir: string
  /** HEAD of the repository when the sandbox was opened. Patches are diffs against it. */
  startCommit: string
  /** Number of the placement that created it, counted over all executions of its episode. Absent in histories of earlier versions. */
  placement?: number
  /** Execution of the episode that owns it. Absent in histories of earlier versions. */
  ownerRun?: string
  /** Hosts that the sandbox may reach, see `OpenSandboxInput`. Absent without a network. */
  allowedHosts?: readonly string[]
}

export interface OpenSandboxInput {
  /** Container name, labels and idempotency key are derived from these. */
  run: string
  episode: string
  role: 'agent' | 'grader' | 'gate'
  /** Placement number, from 1: each placement opens a new container. */
  placement: number
  image: string
  /** Registry digest that the task was gated with. An image with another digest is refused. */
  expectedDigest?: string
  repoDir: string
  /** For images of third parties: their repository may contain the repair in branches, tags or unreachable objects.
   *  @default false */
  scrubHistory?: boolean
  /** Tool settings of the scaffold profile. */
  tools: ToolSettings
  limits: SandboxLimits
  /** Resources that the host must have free before it admits the sandbox, which may then use up to its limits. @default admitted to a full host */
  request?: { cpus: number; memoryMiB: number }
  /** Hosts that programs inside reach through the worker's proxy, for example `pypi.org` or `*.example.org:8443`. @default no network */
  allowedHosts?: readonly string[]
  /** Id of the owner's workflow, for the reaper. */
  owner: string
  /** Execution of the owner. Absent if the owner is not a workflow. */
  ownerRun?: string
  /** The container ends itself after this long without any turn. */
  leaseMs: number
  /** The reaper removes it after this long, even while its owner runs. @default the host's own limit */
  maxLifeMs?: number
}

export interface SandboxLimits {
  cpus: number
  memoryMiB: number
  pids: number
  /** GiB that a container may write, on hosts whose file system can count them. @default no limit */
  diskGiB?: number
  /** OCI runtime as the engine names it (`runsc`, `kata`). @default the host's, else the engine's own */
  runtime?: string
}

/** Settings of the scaffold profile for the tool scripts in the sandbox. */
export interface ToolSettings {
  windowLines: number
  windowOverlap: number
  /** `absolute` shows /testbed/a/b.py, `relative` shows a/b.py (relative to the repository). */
  pathForm: 'absolute' | 'relative'
}

/** One turn that ran in a sandbox. Its random token distinguishes it from any other turn with the same number. */
export interface TurnMark {
  turn: number
  token: string
}

export interface TurnRequest {
  turn: number
  /** The last turn before this one that ran a command, or null. A sandbox whose own last turn differs refuses the request. */
  after: TurnMark | null
  /** Monotone: a fence below the highest one seen is refused with `Sandbox.Fenced`. */
  fence: number
  token: string
  command: string
  timeoutMs: number
  /** Bytes of output returned: half from the head, half from the tail. */
  maxOutputBytes: number
}

export interface TurnResult {
  exitCode: number | null
  reason: 'exit' | 'signal' | 'timeout' | 'output-limit' | 'process-limit'
  /** stdout and stderr merged in order. `omittedBytes` lie between head and tail. */
  head: Uint8Array
  tail: Uint8Array
  omittedBytes: number
  outputBytes: number
  /** By the clock of the worker that asked. If the turn had ended before, the time to read its result. */
  wallMs: number
  oomKilled: boolean
  state: SandboxState
  /** Absent without a network, and if the worker that carried the traffic has died. */
  network?: NetworkUse
}

/** Traffic through a sandbox's proxy during a turn. */
export interface NetworkUse {
  /** Connections to hosts. */
  opened: number
  /** Requests for hosts that the recipe does not allow. */
  refused: number
  /** Both directions. */
  bytes: number
  /** The first ten, as requested. */
  refusedHosts: string[]
}

export interface CaptureRequest {
  mode: 'unstaged' | 'all'
  /** As in `TurnRequest`. */
  after: TurnMark | null
}

export interface PatchCapture {
  /** Exact bytes, never trimmed. */
  patch: Uint8Array
  /** Files that an `unstaged` capture omits: new, staged or committed work. */
  lostFiles: number
  /** Present if no patch can be captured from the repository that the agent left. The patch is empty then. */
  failure?: string
}

/** A patch and the container that it is graded or audited in. */
export interface GradedPatch {
  run: string
  episode: string
  owner: string
  /** Execution of the owner. Absent if the owner is not a workflow. */
  ownerRun?: string
  role: 'grader' | 'gate'
  image: string
  /** Registry digest that the task was gated with. An image with another digest is refused. */
  expectedDigest?: string
  repoDir: string
  patch: Uint8Array
  limits: SandboxLimits
  leaseMs: number
}

export interface AuditRunInput extends GradedPatch {
  audit: AuditPlan
}

export interface GradeRunInput extends GradedPatch {
  /** Path of the patch in the container. @default /tmp/patch.diff */
  patchPath?: string
  /** Commands that run in order without a shell in `repoDir` until one succeeds and has applied the patch. An empty list counts as applied. */
  applyCommands: string[][]
  /** Runs before every attempt but the first. Its exit code is ignored. */
  resetCommand?: string[]
  /** Runs after every attempt has failed. If it succeeds, the patch counts as applied. */
  lastCheck?: string[]
  evalScript: string
  /** `merged`: both output streams in order. `apart`: standard output of applying and testing, then their standard error.
   *  @default merged */
  output?: 'merged' | 'apart'
  /** Further files, by absolute path. */
  files?: Record<string, string | Uint8Array>
  environment?: Record<string, string>
  /** Limit of the evaluation script alone. */
  timeoutMs: number
}

interface GradeRunFacts {
  log: Uint8Array
  imageDigest: string
  /** From before the start of the container to its answer, by the worker's clock. */
  wallMs: number
  /** Peak memory of the container with page cache. Absent if its kernel does not report it. */
  peakMemoryBytes?: number
  /** The machine that it ran on. */
  machine: GradingMachine
}

/** The machine and limits that tests ran under. Other limits may give another verdict. */
export interface GradingMachine {
  /** Version of the container engine, or `Kubernetes` and the version of the cluster. */
  engine: string
  /** Null for a pod, whose node is not asked. */
  cgroupVersion: 1 | 2 | null
  /** Processors as `0,3`; empty for a pod, whose node assigns its share of all. */
  cpuset: string
  memoryMiB: number
  startedAtMs: number
  endedAtMs: number
}

export type GradeRunResult =
  | (GradeRunFacts & { kind: 'ran'; exitCode: number | null })
  /** The exit code is the last attempt's. */
  | (GradeRunFacts & { kind: 'patch-did-not-apply'; exitCode: number | null })
  | (GradeRunFacts & { kind: 'timed-out' })

/**
 * The sandboxes of one machine. `adapters/docker` implements it over the Docker Engine API; a fake exists only in
 * `test/support`. Every method rejects with a `LonghaulError` of a `Sandbox.*` code and obeys `signal`.
 */
export interface SandboxHost {
  open(input: OpenSandboxInput, signal: AbortSignal): Promise<SandboxHandle>
  /** Executes (turn, token) once: claims it, returns the result from the journal, or waits for the running execution.
   *  @throws LonghaulError `Sandbox.Behind` for a new turn unless `after` is the sandbox's last turn, which `details.world` names */
  runTurn(sandbox: SandboxHandle, request: TurnRequest, signal: AbortSignal): Promise<TurnResult>
  /** Refuses lower fences from now on, as a turn with this one would.
   *  @throws LonghaulError `Sandbox.Fenced` if the sandbox has seen a higher one */
  takeOver(sandbox: SandboxHandle, fence: number, signal: AbortSignal): Promise<void>
  /** Renews the lease and changes nothing else. */
  renew(sandbox: SandboxHandle, signal: AbortSignal): Promise<void>
  /** State before the first turn. */
  initialState(sandbox: SandboxHandle, signal: AbortSignal): Promise<SandboxState>
  /** SHA-256 over changed files, working directory and environment. A sandbox rebuilt from records must have the same hash.
   *  @throws LonghaulError `Sandbox.Behind` unless `after` is the sandbox's last turn */
  treeHash(sandbox: SandboxHandle, after: TurnMark | null, signal: AbortSignal): Promise<string>
  /** Kills every process of the agent first.
   *  @throws LonghaulError `Sandbox.Behind` unless `after` is the sandbox's last turn */
  capture(sandbox: SandboxHandle, request: CaptureRequest, signal: AbortSignal): Promise<PatchCapture>
  /** Idempotent: a missing sandbox counts as closed. */
  close(sandbox: { name: string }): Promise<void>
  /** Runs the official steps in a fresh container. */
  grade(input: GradeRunInput, signal: AbortSignal): Promise<GradeRunResult>
  /** Audits in a fresh container, in which no code of the patch runs as root. */
  audit(input: AuditRunInput, signal: AbortSignal): Promise<AuditRun>
}

/** Settings that differ between agents with the same tools: texts, window, path form, output limit. */
export interface ScaffoldProfile {
  name: string
  systemPrompt: string
  /** Appended to the system prompt only while a base policy collects RFT data (paper, App. F). */
  demonstration: string | null
  /** `full`: statement, git advice, checklist, shell note; `brief`: statement alone. The prompt line always follows. */
  firstMessage: 'full' | 'brief'
  tools: ToolSettings
  /** Longest observation, in characters (UTF-16 code units); head and tail are kept, the middle is marked. */
  observationChars: number
}
