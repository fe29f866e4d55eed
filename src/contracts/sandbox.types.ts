import type { AuditPlan, AuditRun } from './audit.types.ts'
import type { SandboxState } from './episodes.types.ts'

/** A sandbox as workflows and records know it: small, serialisable, valid in any process of the same host. */
export interface SandboxHandle {
  /** Deterministic container name; create is idempotent by it. */
  name: string
  containerId: string
  image: string
  imageDigest: string
  /** Pinned task queue of the host that holds it. */
  hostQueue: string
  repoDir: string
  /** HEAD of the repository when the sandbox was opened; patches are taken against it. */
  startCommit: string
  /** The placement that it was made for, counted over all executions of its episode; absent in histories of earlier versions. */
  placement?: number
  /** The execution of the episode that it belongs to; absent in histories of earlier versions. */
  ownerRun?: string
  /** What the sandbox may reach, see `OpenSandboxInput`; absent without a network. */
  allowedHosts?: readonly string[]
}

export interface OpenSandboxInput {
  /** Container name, labels and idempotency key are derived from these. */
  run: string
  episode: string
  role: 'agent' | 'grader' | 'gate'
  /** Placement number, 1-based: a re-placed episode opens a new container. */
  placement: number
  image: string
  /** Registry digest that the task was gated with; an image with another one is refused. */
  expectedDigest?: string
  repoDir: string
  /** For images that come from elsewhere: their repository may hold the repair in branches, tags or lost objects.
   *  @default false */
  scrubHistory?: boolean
  /** Tool settings of the scaffold profile. */
  tools: ToolSettings
  limits: SandboxLimits
  /** What the host must have free for the sandbox to be admitted; it may use up to its limits. @default admitted to a full host */
  request?: { cpus: number; memoryMiB: number }
  /** Hosts that programs inside reach through a proxy of the worker's, as `pypi.org`, `*.example.org:8443`. @default no network */
  allowedHosts?: readonly string[]
  /** Owner workflow id, for the reaper. */
  owner: string
  /** Execution of the owner; absent where the owner is no workflow. */
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
  /** Bytes that a container may write, in GiB, where the host's file system can count them. @default no limit */
  diskGiB?: number
  /** OCI runtime as the engine names it (`runsc`, `kata`). @default the host's, else the engine's own */
  runtime?: string
}

/** What the tool scripts in the sandbox need to know of the scaffold profile. */
export interface ToolSettings {
  windowLines: number
  windowOverlap: number
  /** `absolute` shows /testbed/a/b.py, `relative` shows a/b.py (relative to the repository). */
  pathForm: 'absolute' | 'relative'
}

/** One turn that ran in a sandbox. Its token is random, so it is never mistaken for another turn of that number. */
export interface TurnMark {
  turn: number
  token: string
}

export interface TurnRequest {
  turn: number
  /** The last turn before this one that ran a command, null for none. A sandbox whose own last turn is another refuses. */
  after: TurnMark | null
  /** Monotone: a lower one than the highest seen is refused with `Sandbox.Fenced`. */
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
  /** By the clock of the worker that asked: of a turn that ended before it asked, the time to read it. */
  wallMs: number
  oomKilled: boolean
  state: SandboxState
  /** Absent without a network, and for what happened under a worker that has died since. */
  network?: NetworkUse
}

/** What went through a sandbox's proxy during a turn. */
export interface NetworkUse {
  /** Connections to hosts. */
  opened: number
  /** Requests for what the recipe does not allow. */
  refused: number
  /** Both directions. */
  bytes: number
  /** As they were asked for, the first ten. */
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
  /** Files that `unstaged` capture leaves behind (new, staged or committed work). */
  lostFiles: number
  /** Present where the agent left a repository that no patch can be taken from; the patch is empty then. */
  failure?: string
}

/** A patch and the container that it is graded or audited in. */
export interface GradedPatch {
  run: string
  episode: string
  owner: string
  /** Execution of the owner; absent where the owner is no workflow. */
  ownerRun?: string
  role: 'grader' | 'gate'
  image: string
  /** Registry digest that the task was gated with; an image with another one is refused. */
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
  /** Where the patch lies in the container. @default /tmp/patch.diff */
  patchPath?: string
  /** Commands tried in order, run without a shell in `repoDir`: the first that succeeds applies the patch. None: as applied. */
  applyCommands: string[][]
  /** Run before every attempt but the first; its exit code is ignored. */
  resetCommand?: string[]
  /** Success after every attempt failed counts as applied. */
  lastCheck?: string[]
  evalScript: string
  /** `merged`: what the script prints, in order. `apart`: standard output of applying and testing, then their standard error.
   *  @default merged */
  output?: 'merged' | 'apart'
  /** Further files, by absolute path. */
  files?: Record<string, string | Uint8Array>
  environment?: Record<string, string>
  /** Of the evaluation alone. */
  timeoutMs: number
}

interface GradeRunFacts {
  log: Uint8Array
  imageDigest: string
  /** From before the start of the container to its answer, by the worker's clock. */
  wallMs: number
  /** Most memory that the container used, page cache included; absent where its kernel does not say. */
  peakMemoryBytes?: number
  /** What it ran on. */
  machine: GradingMachine
}

/** Where and under which limits tests ran; a verdict of other limits may be another verdict. */
export interface GradingMachine {
  engine: string
  cgroupVersion: 1 | 2
  /** Processors as `0,3`. */
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
 * One machine's sandboxes. Implemented over the Docker Engine API by `adapters/docker`; a fake never stands in for it
 * outside `test/support`. Every method rejects with a `LonghaulError` of a `Sandbox.*` code and obeys `signal`.
 */
export interface SandboxHost {
  open(input: OpenSandboxInput, signal: AbortSignal): Promise<SandboxHandle>
  /** Executes (turn, token) once: claims it, or returns the journal's result, or waits for the one that is running.
   *  @throws LonghaulError `Sandbox.Behind` for a new turn unless `after` is the sandbox's last turn; `details.world` says which is */
  runTurn(sandbox: SandboxHandle, request: TurnRequest, signal: AbortSignal): Promise<TurnResult>
  /** Renews the lease and changes nothing else. */
  renew(sandbox: SandboxHandle, signal: AbortSignal): Promise<void>
  /** State before the first turn. */
  initialState(sandbox: SandboxHandle, signal: AbortSignal): Promise<SandboxState>
  /** SHA-256 over changed files, place and environment: a sandbox rebuilt from records must have the same.
   *  @throws LonghaulError `Sandbox.Behind` unless `after` is the sandbox's last turn */
  treeHash(sandbox: SandboxHandle, after: TurnMark | null, signal: AbortSignal): Promise<string>
  /** Kills every process of the agent first.
   *  @throws LonghaulError `Sandbox.Behind` unless `after` is the sandbox's last turn */
  capture(sandbox: SandboxHandle, request: CaptureRequest, signal: AbortSignal): Promise<PatchCapture>
  /** Idempotent: a sandbox that is gone is closed. */
  close(sandbox: { name: string }): Promise<void>
  /** Runs the official steps in a fresh container. */
  grade(input: GradeRunInput, signal: AbortSignal): Promise<GradeRunResult>
  /** Audits in a fresh container, which no code of the patch has run in as root. */
  audit(input: AuditRunInput, signal: AbortSignal): Promise<AuditRun>
}

/** What may differ between agents that share the same tools: texts, window, path form, output cap. */
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
