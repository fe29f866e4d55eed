/** Alarms: facts that are sent to people without a request. */

export type AlarmKind = 'regression' | 'failure' | 'skipped' | 'blocker'

export interface AlarmRules {
  /** A blocker is an alarm once it is older. */
  blockerMinutes: number
  /** `scheduled`: runs that a schedule started; `all`: those that people and CI started too. */
  runs: 'scheduled' | 'all'
}

/** Where alarms go. Secrets are named, never said: the control worker reads the variables. */
export interface AlarmReceiver {
  /** Variable that holds the address: for chat services the address is a secret itself. */
  urlVariable: string
  /** Variable that holds the key of the signature; null: alarms are not signed. */
  secretVariable: string | null
  template: AlarmTemplate
}

/** `json`: the alarm as it is. Own templates are any JSON whose texts may name facts, as in `{"text": "{{title}}"}`. */
export type AlarmTemplate = 'json' | 'slack' | 'discord' | { [key: string]: unknown }

/** An alarm. Its texts may come from anywhere: they are data, never markup. */
export interface Alarm {
  schema: 'longhaul.alarm/1'
  /** The same fact has the same id: what a receiver may drop as a repetition. */
  id: string
  kind: AlarmKind
  /** One line. */
  title: string
  /** What happened, and what a person can do. */
  text: string
  run: string | null
  /** Series of the night, or schedule. */
  series: string | null
  workflowId: string | null
  /** Into the viewer, where the control worker knows of one. */
  link: string | null
  /** ISO time at which it was found. */
  at: string
}

/** Input of `watch`. */
export interface WatchInput extends AlarmRules {
  receiver: AlarmReceiver
}

export interface WatchResult extends Omit<FoundAlarms, 'alarms'> {
  sent: number
}

export interface FoundAlarms {
  /** Ids of those to be sent. */
  alarms: string[]
  /** Alarms that no receiver took for a day: they are not tried any more. */
  givenUp: number
  /** Open runs beyond those whose blockers were looked at. */
  notLookedAt: number
}

/** What a look at the server found. */
export interface AlarmLook {
  schedules: { id: string; createdAt: string; skippedOverlap: number; missedCatchup: number }[]
  /** Failed, timed out or terminated. */
  ended: { run: string | null; workflowId: string; status: string; at: string }[]
  blocked: BlockedRun[]
  /** Open runs beyond the limit. */
  notLookedAt: number
}

export interface BlockedRun {
  run: string | null
  workflowId: string
  blockers: {
    on: { kind: string; name: string }
    doing: string
    /** ISO time. */
    since: string
    count: number
    code: string | null
    toDo: string
  }[]
}

/** The server as the watch sees it. */
export interface AlarmSources {
  look(input: { since: Date; runs: AlarmRules['runs']; blockerMs: number }): Promise<AlarmLook>
  /** Why a run ended. */
  reasonOf(workflowId: string): Promise<string>
}

/** When this store was first watched. */
export interface AlarmsSince {
  schema: 'longhaul.alarms-since/1'
  /** ISO time. */
  at: string
}

/** What a schedule had skipped when it was first seen. */
export interface AlarmCounts {
  schema: 'longhaul.alarm-counts/1'
  schedule: string
  skippedOverlap: number
  missedCatchup: number
}

/** An alarm that a receiver took, or that was given up. */
export interface AlarmSent {
  schema: 'longhaul.alarm-sent/1'
  id: string
  /** ISO time; null for one that was given up. */
  at: string | null
}
