import { readFileSync } from 'node:fs'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EnvironmentPin, TaskEnvironment } from '../../contracts/task-images.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { RowColumns, setupCommitOf } from './row-columns.ts'

/** `infra/images/environments/swebench-4.1.json`, written by `test/support/grading-oracle/record-environments.ts`. */
export interface HarnessEnvironments {
  version: string
  /** Hash over the package's files of constants. */
  sha256: string
  requirementFiles: Record<string, string[]>
  environmentFiles: Record<string, string[]>
  repositories: Record<string, HarnessEnvironment[]>
}

interface HarnessEnvironment {
  versions: string[]
  python: string
  packages?: string
  pip_packages?: string[]
  pre_install?: string[]
  install?: string
}

/**
 * Determines how a task's environment is made: by its row's `install_config`, otherwise by swebench 4.1.0's tables for its repository
 * and version.
 * @throws LonghaulError `Task.Invalid` if neither defines it
 */
export function taskEnvironment(row: unknown, task: Task): TaskEnvironment {
  const columns = new RowColumns(row, task.taskId)
  const config = columns.object('install_config')
  const setupCommit = setupCommitOf(columns, task)
  return config === null
    ? harnessEnvironment(columns, task, setupCommit)
    : rowEnvironment(columns, config, task, setupCommit)
}

function harnessEnvironment(columns: RowColumns, task: Task, setupCommit: string): TaskEnvironment {
  const { repo } = task
  const version = task.harness?.version ?? columns.optionalWord('version')
  const known = harnessEnvironments()
  const spec = known.repositories[repo]?.find(({ versions }) => version !== null && versions.includes(version))
  if (spec === undefined) {
    throw new LonghaulError({
      code: 'Task.Invalid',
      message: `Expected a repository and version whose environment swebench ${known.version} knows, or an install_config in the row`,
      details: { row: task.taskId, repo, version },
    })
  }
  return {
    source: `swebench ${known.version}`,
    python: spec.python,
    packages: spec.packages ?? null,
    requirementFiles: known.requirementFiles[repo] ?? [],
    environmentFiles: known.environmentFiles[repo] ?? [],
    pipPackages: spec.pip_packages ?? [],
    pins: (pins()[repo] ?? []).filter(({ versions }) => version !== null && versions.includes(version)),
    preInstall: spec.pre_install ?? [],
    install: spec.install === undefined ? [] : [spec.install],
    setupCommit,
  }
}

let environments: HarnessEnvironments | undefined

function harnessEnvironments(): HarnessEnvironments {
  const file = new URL('../../../infra/images/environments/swebench-4.1.json', import.meta.url)
  environments ??= JSON.parse(readFileSync(file, 'utf8')) as HarnessEnvironments
  return environments
}

/** Keyed by repository. */
type Pins = Record<string, (EnvironmentPin & { versions: string[] })[]>

let knownPins: Pins | undefined

function pins(): Pins {
  const file = new URL('../../../infra/images/environments/pins.json', import.meta.url)
  knownPins ??= JSON.parse(readFileSync(file, 'utf8')) as Pins
  return knownPins
}

type InstallConfig = Record<string, unknown>

/** Packages that V2's base images of Python contain besides its tools. */
const V2_PACKAGES = ['pytest']

function rowEnvironment(
  columns: RowColumns,
  config: InstallConfig,
  { gradingProfile }: Task,
  setupCommit: string,
): TaskEnvironment {
  const list = (key: string): string[] => commandList(columns, key, config[key])
  const packages = config['packages'] ?? null
  if (packages !== null && typeof packages !== 'string') {
    throw columns.refuse('install_config.packages', 'text', packages)
  }
  return {
    source: 'install_config',
    python: pythonOf(columns, config),
    packages: packages === null || packages.trim() === '' ? null : packages,
    requirementFiles: list('reqs_path'),
    environmentFiles: list('env_yml_path'),
    pipPackages: [...(gradingProfile === 'rebench-v2' ? V2_PACKAGES : []), ...list('pip_packages')],
    pins: [],
    preInstall: list('pre_install'),
    install: list('install'),
    setupCommit,
  }
}

/** Reads Python's version from the base image, which V2's rows name instead of a version. A version below 3.6 becomes 3.6, as in the
 *  fork. */
function pythonOf(columns: RowColumns, config: InstallConfig): string {
  const word = (key: string): string | null => {
    const value = config[key] ?? null
    return typeof value === 'number' ? String(value) : typeof value === 'string' ? value : null
  }
  const stated = word('python')
  const base = word('base_image_name')
  // Matches `python_3.11`, `python_base_310` or `python_3.11_base:latest`.
  const [, ...numbers] = /^(?:.*\/)?python\D*?(\d)\D?(\d{1,2})(?:\.\d+)?(?:[_-]base)?(?::\w+)?$/i.exec(base ?? '') ?? []
  const text = stated ?? numbers.join('.')
  const [, major, minor] = /^(\d+)\.(\d+)(?:\.\d+)?$/.exec(text) ?? []
  if (major === undefined || minor === undefined) {
    throw columns.refuse('install_config.python', 'a version of Python such as "3.9"', stated ?? base)
  }
  return Number(major) === 3 && Number(minor) < 6 ? '3.6' : `${major}.${minor}`
}

function commandList(columns: RowColumns, key: string, value: unknown): string[] {
  if (value === undefined || value === null || value === '') return []
  const parts = Array.isArray(value) ? value : [value]
  const isTexts = parts.every((part) => typeof part === 'string' && part.isWellFormed() && !part.includes('\0'))
  if (!isTexts) throw columns.refuse(`install_config.${key}`, 'text or a list of texts', value)
  return (parts as string[]).filter((part) => part.trim() !== '')
}
