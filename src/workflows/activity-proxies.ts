/** Activities as workflows call them, by the queue that serves them. `activity-presets.ts` has the limits and their reasons. */
import { proxyActivities } from '@temporalio/workflow'
import type {
  ArtifactActivities,
  ControlActivities,
  HostActivities,
  SandboxActivities,
  TrainerActivities,
} from '../contracts/activities.types.ts'
import {
  ALARMS,
  ARTIFACTS,
  ATTENDANCE,
  CLOSING,
  CONTROL,
  GATING,
  GRADING,
  HOST,
  IMAGES,
  PLACEMENT,
  PUBLISHING,
  SLOW_CONTROL,
  TRAINING,
} from './activity-presets.ts'

export const control = proxyActivities<ControlActivities>(CONTROL)
export const slowControl = proxyActivities<ControlActivities>(SLOW_CONTROL)
export const alarms = proxyActivities<Pick<ControlActivities, 'sendAlarm'>>(ALARMS)
export const placement = proxyActivities<SandboxActivities>(PLACEMENT)
export const gating = proxyActivities<Pick<SandboxActivities, 'gateTask'>>(GATING)
export const images = proxyActivities<Pick<SandboxActivities, 'checkImages'>>(IMAGES)
export const grading = proxyActivities<SandboxActivities>(GRADING)
export const training = proxyActivities<TrainerActivities>(TRAINING)
export const publishing = proxyActivities<TrainerActivities>(PUBLISHING)
export const artifacts = proxyActivities<ArtifactActivities>(ARTIFACTS)

export function hostActivities(taskQueue: string) {
  return proxyActivities<Pick<HostActivities, 'advanceEpisode' | 'captureSubmission'>>({ taskQueue, ...HOST })
}

export function attendance(taskQueue: string) {
  return proxyActivities<Pick<HostActivities, 'attendHost'>>({ taskQueue, ...ATTENDANCE })
}

export function closingActivities(taskQueue: string) {
  return proxyActivities<Pick<HostActivities, 'closeSandbox'>>({ taskQueue, ...CLOSING })
}
