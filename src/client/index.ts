/** The programmatic interface of Longhaul: what is exported here is public. */
export type { Blocker } from './blockers/blocker.ts'
export { findBlockers, type FindBlockersInput, type RunBlockers } from './blockers/find-blockers.ts'
export { connect, isOpen, type ConnectOptions, type LonghaulConnection } from './connect.ts'
export {
  type CancelAnswer,
  cancelReasonOf,
  cancelRun,
  pauseRun,
  queryProgress,
  queryRollout,
  requestCancel,
  requeueTask,
  resumeRun,
  type RunAddress,
  setRunLimits,
  type SteerAnswer,
  type SteerInput,
  stopRunAfterIteration,
} from './control-run.ts'
export {
  type BuildLook,
  type BuildStatus,
  type DeploymentLook,
  lookAtDeployment,
  type PromoteAnswer,
  promoteBuild,
  type PromoteInput,
} from './deployment.ts'
export {
  type AlarmsChange,
  type AlarmsRequest,
  applyAlarms,
  removeAlarms,
} from './alarm-schedule.ts'
export { lookForAlarms, reasonOfEnd } from './look-for-alarms.ts'
export { type ListedRun, listRuns, type ListRunsInput } from './list-runs.ts'
export {
  drainHost,
  type HostAnswer,
  joinHost,
  type ListedHost,
  listHosts,
  readHostState,
  type SteerHostInput,
  uncordonHost,
} from './hosts.ts'
export type { RunScore } from './list-runs.ts'
export { lookAtRun, type RunLook } from './list-runs.ts'
export type { OpenActivity, RunWork } from './look-at-work.ts'
export { findOpenWork, findRun, type FoundRun } from './find-run.ts'
export { readHistory, type ReadHistoryInput } from './read-history.ts'
export { readEvaluation, type ReadEvaluationOptions } from './read-evaluation.ts'
export type { RunHandle } from './watch-run.ts'
export type { RunOutcome } from './watch-run.ts'
export {
  backfillSchedule,
  createSchedule,
  deleteSchedule,
  type ListedSchedule,
  listSchedules,
  pauseSchedule,
  type ScheduleChange,
  type ScheduleInput,
  triggerSchedule,
} from './schedules.ts'
export { OVERLAPS, type ScheduleRequest, type ScheduleSettings } from './schedule-settings.ts'
export { evaluationRequestHash, startEvaluation, type StartEvaluationInput } from './start.ts'
export { startGrading, type StartGradingInput } from './start.ts'
export { startGate, type StartGateInput } from './start.ts'
export { startTraining, type StartTrainingInput } from './start.ts'
export { type EpisodeCounts, type RunEvent, watchRun, type WatchRunInput } from './watch-run.ts'
export { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
export type { Dependency, WorkflowWait, WorkflowWaits } from '../contracts/waits.types.ts'
export type { AttemptSummary, EvaluationDocument, EvaluationRecord } from '../contracts/evaluations.types.ts'
export type { ExecutionHistory, HistoryActivity, HistoryMark } from '../contracts/histories.types.ts'
export type { FailureCode } from '../contracts/failure-codes.ts'
export type { GateCounts, GateOutcome, GateReport, TaskGate } from '../contracts/gates.types.ts'
export type {
  EvaluateResult,
  EvaluationEvidence,
  GateSuiteResult,
  GradePredictionsResult,
  PauseMode,
  RolloutReport,
  RunProgress,
  StageScore,
  TrainAgentResult,
  WorkCount,
} from '../contracts/workflows.types.ts'
