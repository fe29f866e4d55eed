import type { PeerTask } from './script.ts'
import type { Ending } from './scripted-model.ts'

/** A way to play tasks and grade the results. All its processes are started through `run`. */
export interface Runner {
  name: string
  versions: Record<string, string>
  /** Peculiarities of its run here. */
  notes: string[]
  /** Actions that submit the work after the script's commands. */
  endings: readonly Ending[]
  /** Work that users do once and not for each run; it is not measured. */
  prepare(input: RunInput): Promise<void>
  /** Starts standing services, before a run and again after a kill. */
  start(input: RunInput): Promise<void>
  /** Plays and grades; called again after a kill to finish the run. */
  play(input: RunInput, again: boolean): Promise<void>
  /** Null for a task without a verdict. */
  verdicts(input: RunInput): Promise<Map<string, string | null>>
  stop(input: RunInput): Promise<void>
}

export interface RunInput {
  tasks: readonly PeerTask[]
  /** Folder of this run only. */
  folder: string
  engineHost: string
  modelUrl: string
  /** Commands per episode. */
  turns: number
  /** Concurrent episodes. */
  workers: number
  /** Runs a command in the measured group. @throws Error if it fails or is killed */
  run(input: { command: string; args: string[]; env?: NodeJS.ProcessEnv; cwd?: string }): Promise<string>
}
