import type { PeerTask } from './script.ts'
import type { Ending } from './scripted-model.ts'

/** One way to play tasks and to grade what came of them. Everything that it starts goes through `start`. */
export interface Runner {
  name: string
  versions: Record<string, string>
  /** What is peculiar about its run here. */
  notes: string[]
  /** What hands in the work, after the commands of the script. */
  endings: readonly Ending[]
  /** What users do once and not for each run; it does not count. */
  prepare(input: RunInput): Promise<void>
  /** Standing services, before a run and again after all of its processes were killed. */
  start(input: RunInput): Promise<void>
  /** Plays and grades; called again after a kill, to finish what was begun. */
  play(input: RunInput, again: boolean): Promise<void>
  /** Null where a task has none. */
  verdicts(input: RunInput): Promise<Map<string, string | null>>
  stop(input: RunInput): Promise<void>
}

export interface RunInput {
  tasks: readonly PeerTask[]
  /** Of this run alone. */
  folder: string
  engineHost: string
  modelUrl: string
  /** Commands of an episode. */
  turns: number
  /** Episodes side by side. */
  workers: number
  /** Runs a command in the measured group. @throws Error where it fails, and where it is killed */
  run(input: { command: string; args: string[]; env?: NodeJS.ProcessEnv; cwd?: string }): Promise<string>
}
