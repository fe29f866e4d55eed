/** The programmatic interface of Longhaul: what is exported here is public. */
export type { Blocker } from './blockers/blocker.ts'
export { findBlockers, type FindBlockersInput, type RunBlockers } from './blockers/find-blockers.ts'
export { connect, type ConnectOptions, type LonghaulConnection } from './connect.ts'
export { cancelRun, pauseRun, queryProgress, resumeRun, type RunAddress, stopRunAfterIteration } from './control-run.ts'
export { findRun, type FoundRun } from './find-run.ts'
export type { RunHandle } from './run-handle.ts'
export type { RunOutcome } from './watch-run.ts'
export {
  createSchedule,
  deleteSchedule,
  type ListedSchedule,
  listSchedules,
  type ScheduleChange,
  type ScheduleInput,
  triggerSchedule,
} from './schedules.ts'
export type { ScheduleSettings } from './schedule-settings.ts'
export { startEvaluation, type StartEvaluationInput } from './start.ts'
export { startGrading, type StartGradingInput } from './start.ts'
export { startGate, type StartGateInput } from './start.ts'
export { startTraining, type StartTrainingInput } from './start.ts'
export { type EpisodeCounts, type RunEvent, watchRun, type WatchRunInput } from './watch-run.ts'
export { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
export type { Dependency, WorkflowWait, WorkflowWaits } from '../contracts/waits.types.ts'
export type { FailureCode } from '../contracts/failure-codes.ts'
export type { GateCounts, GateOutcome, GateReport, TaskGate } from '../contracts/gates.types.ts'
export type {
  EvaluateResult,
  GateSuiteResult,
  GradePredictionsResult,
  RunProgress,
  StageScore,
  TrainAgentResult,
} from '../contracts/workflows.types.ts'
