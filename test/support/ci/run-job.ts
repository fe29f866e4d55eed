/**
 * Runs the jobs of this repository's CI files as their systems do: every `run:` and `script:` in its own shell, with the system's
 * variables and files and without this process's environment. Actions of others (checkout, upload) are listed in `left` and not run.
 */
import { spawn } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import { type ExpressionScope, interpolate, isMet } from './expressions.ts'

export interface RanStep {
  name: string
  exitCode: number
  /** stdout and stderr as the log shows them. */
  log: string
}

export interface RanJob {
  steps: RanStep[]
  /** Exit code of the first failed step, otherwise 0. */
  exitCode: number
  outputs: Record<string, string>
  /** The job's summary page. */
  summary: string
  /** Skipped `uses:`, and steps whose condition does not hold. */
  left: string[]
}

interface Step {
  name?: string
  id?: string
  if?: string
  uses?: string
  run?: string
  with?: Record<string, string>
  env?: Record<string, string>
}

export interface JobInput {
  /** Content of the file. */
  file: string
  job: string
  /** The checkout in which every step starts. */
  workspace: string
  /** Folder with the repository's own actions (`./…`). */
  repository: string
  /** Variables of the machine: PATH, HOME. */
  machine: Record<string, string>
  /** Called with the pid of a step, so that a test can end it. */
  onStart?: (pid: number) => void
}

export interface GithubJobInput extends JobInput {
  contexts: { github: Record<string, unknown>; vars: Record<string, string>; needs?: Record<string, unknown> }
}

export async function runGithubJob(input: GithubJobInput): Promise<RanJob> {
  const { job: name, contexts, workspace } = input
  const file = parse(input.file) as { env?: Record<string, string>; jobs: Record<string, GithubJob> }
  const job = file.jobs[name]
  if (job === undefined) throw new Error(`Expected a job ${name}`)
  const files = join(workspace, `.runner-${name}-${Math.random().toString(36).slice(2)}`)
  await mkdir(files)
  const steps: Record<string, { outputs: Record<string, string> }> = {}
  const scope: ExpressionScope = { contexts: { secrets: {}, needs: {}, ...contexts, steps }, failed: false }
  const ran: RanJob = { steps: [], exitCode: 0, outputs: {}, summary: '', left: [] }
  if (!isMet(job.if, scope)) return { ...ran, left: [name] }
  const env = {
    ...input.machine,
    ...githubEnvironment(contexts.github, workspace),
    ...valuesOf(file.env, scope),
    ...valuesOf(job.env, scope),
  }
  const world = { ...input, env, files, ran }
  for (const step of job.steps) await runStep(step, { ...world, scope, steps })
  for (const [key, value] of Object.entries(job.outputs ?? {})) ran.outputs[key] = interpolate(value, scope)
  return ran
}

interface GithubJob {
  if?: string
  env?: Record<string, string>
  outputs?: Record<string, string>
  steps: Step[]
}

interface StepWorld extends JobInput {
  env: Record<string, string>
  files: string
  ran: RanJob
  scope: ExpressionScope
  steps: Record<string, { outputs: Record<string, string> }>
}

async function runStep(step: Step, world: StepWorld): Promise<void> {
  const { scope, ran, steps, files, env } = world
  const name = step.name ?? step.uses ?? step.run ?? ''
  if (!isMet(step.if, scope)) {
    ran.left.push(name)
    return
  }
  if (step.uses?.startsWith('./') === true) return runComposite(step, world)
  if (step.run === undefined) {
    ran.left.push(step.uses ?? name)
    return
  }
  const [output, summary, script] = ['output', 'summary.md', 'step.sh'].map((file) =>
    join(files, `${ran.steps.length}-${file}`),
  ) as [string, string, string]
  await Promise.all([writeFile(output, ''), writeFile(summary, ''), writeFile(script, interpolate(step.run, scope))])
  const own = { ...env, ...valuesOf(step.env, scope), GITHUB_OUTPUT: output, GITHUB_STEP_SUMMARY: summary }
  const done = await runShell(['bash', '--noprofile', '--norc', '-eo', 'pipefail', script], own, world)
  ran.steps.push({ name, ...done })
  ran.summary += await readFile(summary, 'utf8')
  if (step.id !== undefined) steps[step.id] = { outputs: readOutputs(await readFile(output, 'utf8')) }
  if (done.exitCode === 0) return
  scope.failed = true
  if (ran.exitCode === 0) ran.exitCode = done.exitCode
}

async function runComposite(step: Step, world: StepWorld): Promise<void> {
  const { scope, repository, steps } = world
  const path = join(repository, step.uses ?? '')
  const action = parse(await readFile(join(path, 'action.yml'), 'utf8')) as Composite
  const given = valuesOf(step.with, scope)
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(action.inputs, name))
  if (unknown.length > 0) throw new Error(`Expected inputs that ${step.uses} has, got ${unknown.join(', ')}`)
  const inputs = Object.fromEntries(
    Object.entries(action.inputs).map(([name, input]) => [name, given[name] ?? input.default ?? '']),
  )
  const inner: StepWorld['steps'] = {}
  const innerScope = { contexts: { ...scope.contexts, inputs, steps: inner }, failed: false }
  const innerWorld = { ...world, scope: innerScope, steps: inner, env: { ...world.env, GITHUB_ACTION_PATH: path } }
  for (const one of action.runs.steps) await runStep(one, innerWorld)
  if (step.id !== undefined) {
    const values = Object.entries(action.outputs).map(([name, { value }]) => [name, interpolate(value, innerScope)])
    steps[step.id] = { outputs: Object.fromEntries(values) as Record<string, string> }
  }
  if (innerScope.failed) scope.failed = true
}

interface Composite {
  inputs: Record<string, { default?: string }>
  outputs: Record<string, { value: string }>
  runs: { using: 'composite'; steps: Step[] }
}

function githubEnvironment(github: Record<string, unknown>, workspace: string): Record<string, string> {
  const named = Object.entries(github).flatMap(([name, value]) =>
    typeof value === 'string' ? [[`GITHUB_${name.toUpperCase()}`, value]] : [],
  )
  return { CI: 'true', GITHUB_ACTIONS: 'true', GITHUB_WORKSPACE: workspace, ...Object.fromEntries(named) }
}

function valuesOf(values: Record<string, unknown> | undefined, scope: ExpressionScope): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values ?? {}).map(([name, value]) => [name, interpolate(String(value), scope)]),
  )
}

function readOutputs(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf('=')
      if (at < 1) throw new Error(`Expected name=value in the output file, got ${JSON.stringify(line)}`)
      return [line.slice(0, at), line.slice(at + 1)]
    }),
  )
}

export interface GitlabJobInput extends JobInput {
  /** Variables of the pipeline and the project, and those of `dotenv` reports of the jobs that it needs. */
  variables: Record<string, string>
}

interface GitlabJob {
  extends?: string
  variables?: Record<string, string>
  before_script?: string[]
  script?: string[]
  artifacts?: { reports?: { dotenv?: string; junit?: string } }
}

export async function runGitlabJob(input: GitlabJobInput): Promise<RanJob> {
  const { workspace, variables, machine } = input
  const job = resolveJob(parse(input.file) as Record<string, GitlabJob>, input.job)
  const known = { ...machine, CI: 'true', GITLAB_CI: 'true', CI_PROJECT_DIR: workspace, ...variables }
  const own = Object.entries(job.variables ?? {}).map(([name, value]) => [name, expand(value, known)])
  const env = { ...known, ...(Object.fromEntries(own) as Record<string, string>) }
  // GitLab joins the lines of both into one script.
  const script = ['set -eo pipefail', ...(job.before_script ?? []), ...(job.script ?? [])].join('\n')
  const done = await runShell(['bash', '-c', script], env, input)
  const { dotenv } = job.artifacts?.reports ?? {}
  const outputs =
    dotenv === undefined ? {} : readOutputs(await readFile(join(workspace, dotenv), 'utf8').catch(() => ''))
  return { steps: [{ name: input.job, ...done }], exitCode: done.exitCode, outputs, summary: '', left: [] }
}

function resolveJob(file: Record<string, GitlabJob>, name: string): GitlabJob {
  const job = file[name]
  if (job === undefined) throw new Error(`Expected a job ${name}`)
  return job.extends === undefined ? job : (merge(resolveJob(file, job.extends), job) as GitlabJob)
}

/** Merges mappings and replaces lists. */
function merge(base: unknown, over: unknown): unknown {
  const isMapping = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isMapping(base) || !isMapping(over)) return over
  const merged = { ...base }
  for (const [key, value] of Object.entries(over))
    merged[key] = Object.hasOwn(base, key) ? merge(base[key], value) : value
  return merged
}

function expand(text: string, known: Record<string, string>): string {
  return text.replace(/\$(\w+)/g, (_, name: string) => known[name] ?? '')
}

async function runShell(
  [command = 'bash', ...args]: string[],
  env: Record<string, string>,
  { workspace, onStart }: Pick<JobInput, 'workspace' | 'onStart'>,
): Promise<{ exitCode: number; log: string }> {
  const child = spawn(command, args, { cwd: workspace, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (log += String(data)))
  if (child.pid !== undefined) onStart?.(child.pid)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ exitCode: code ?? 137, log }))
  })
}
