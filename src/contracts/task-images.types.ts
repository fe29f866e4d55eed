/** What a harness or a row says about the environment that a task's tests run in. */
export interface TaskEnvironment {
  /** Where these facts come from: `swebench 4.1.0` or `install_config`. */
  source: string
  /** As `3.9` */
  python: string
  /** `requirements.txt`, `environment.yml`, names of packages as conda takes them, or nothing. */
  packages: string | null
  /** Where `requirements.txt` may lie in the repository; the first that is there counts. */
  requirementFiles: readonly string[]
  environmentFiles: readonly string[]
  pipPackages: readonly string[]
  /** What the harness leaves open, and today's registry would give in a version that the tests cannot use. */
  pins: readonly EnvironmentPin[]
  /** Run one after the other, in the repository. */
  preInstall: readonly string[]
  install: readonly string[]
  /** Commit whose requirement files count. */
  setupCommit: string
}

export interface EnvironmentPin {
  /** As `docutils==0.21.2` */
  package: string
  reason: string
}

/** Steps of a build, in order; a failure names one. */
export type BuildStage = 'source' | 'base' | 'python' | 'environment' | 'pre-install' | 'install' | 'check'

/** A Python that a host offers. */
export interface HostPython {
  kind: 'named' | 'uv' | 'pyenv' | 'conda' | 'image'
  /** As `3.9.18` */
  version: string
  /** Directory with `bin` and `lib`. */
  prefix: string
  /** Tells two builds of one version apart. */
  build: string
}

/** How an image came to be; kept in its labels and beside its log. Holds no setting of the user's package index. */
export interface TaskImageRecord {
  /** Content-addressed name. */
  tag: string
  builder: number
  taskId: string
  repo: string
  baseCommit: string
  /** Base image. */
  base: string
  python: HostPython
  environment: { source: string; python: string; setupCommit: string; layer: string }
  network: 'bridge' | 'host'
  /** Where the build differs from the harness's own. */
  deviations: string[]
}

export interface BuiltTaskImage {
  taskId: string
  /** What the row names or its harness derives; the graders use it. */
  image: string
  /** Content-addressed name of the same image; null where the image is not ours. */
  tag: string | null
  /** `found`: there already; `present`: there already, and not built by this command. */
  did: 'built' | 'found' | 'present'
  /** Of the whole image, and of what it does not share with its environment. */
  bytes: number
  ownBytes: number
  seconds: number
  record: TaskImageRecord | null
  /** File with the output of the build; null where nothing was built. */
  log: string | null
}

export interface FailedTaskImage {
  taskId: string
  image: string
  did: 'failed'
  stage: BuildStage
  code: string
  message: string
  seconds: number
  log: string | null
  /** Not the task's fault: the engine left a request without an answer. */
  isOfEngine: boolean
}
