/** Where a run's metrics go beside its records. Secrets are named, never said: workers read the variables. */
export type TrackerRecipe = MlflowRecipe | TensorboardRecipe | WandbRecipe

export interface MlflowRecipe {
  kind: 'mlflow'
  /** Of the tracking server, as `https://mlflow.example.org`. */
  url: string
  experiment: string
  /** Name of the environment variable of the workers that holds a bearer token; null = none is sent. */
  tokenVariable: string | null
}

export interface TensorboardRecipe {
  kind: 'tensorboard'
  /** Absolute; holds a folder for each run. */
  directory: string
}

export interface WandbRecipe {
  kind: 'wandb'
  project: string
  /** The team or user that the files name; null = the default of the user who uploads them. */
  entity: string | null
  /** Absolute; holds a folder `wandb`, as the package names it. */
  directory: string
}

/** One value of one metric. A metric may have several values at a step, which differ in their times. */
export interface TrackedPoint {
  /** `dapo-1/loss`, `eval/held-out/pass_at_1`. */
  metric: string
  /** Optimizer step: of a policy, how many made it. */
  step: number
  /** Finite. */
  value: number
  /** ms since 1970. All points of a record have one time, and no two records of a run have the same. */
  atMs: number
}

/** Entry n of a run's journal of measurements: which record came n-th, and when. */
export interface MeasuredRecord {
  schema: 'longhaul.measured/1'
  /** Key of a training record or an evaluation record. */
  record: string
  /** When it was first seen, ms since 1970; later than that of every entry before. */
  atMs: number
}

/** The id that a tracker gave a run: the first that was claimed is that of all senders. */
export interface TrackedId {
  schema: 'longhaul.tracked/1'
  /** The tracker's name, for people. */
  tracker: string
  id: string
}

/** A run as trackers show it. */
export interface TrackedRun {
  run: string
  /** Tells it from a run of the same name in another artifact store; empty where its claim does not. */
  id: string
  /** Facts for people, such as the recipe's hash. */
  facts: Record<string, string>
  /** In the order of the journal: later readings append to earlier ones. */
  points: TrackedPoint[]
  /** Whether a report was written, which is the last thing a run does. */
  isReported: boolean
}

/** What became of one sending to one tracker. */
export interface TrackerOutcome {
  /** `mlflow http://127.0.0.1:5000 (demo)`, `tensorboard /data/tb`. */
  tracker: string
  /** Points of the run. */
  points: number
  /** Those of them that it did not have. With a problem: as far as is known. */
  sent: number
  /** Why it does not have all of them; null where it does. */
  problem: string | null
}
