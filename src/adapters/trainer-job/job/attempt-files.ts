import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf, fileAgeMs, makeDirectory, namesIn, writeFileAtomically } from '../../../platform/files.ts'
import type { HostProcess } from '../../../platform/processes.ts'
import type { Attempt } from '../launchers/launcher.types.ts'
import type { JobAttemptTime } from '../../../contracts/costs.types.ts'

/** The trainer's own report of its end. It takes precedence over the process status. */
interface ExitReport {
  code: number
  class: string
  message: string
  [fact: string]: unknown
}

export function attemptDirectory(jobDirectory: string, fence: number): string {
  return join(jobDirectory, 'attempts', String(fence))
}

/** The highest claimed fence; 0 if none is claimed. */
export async function highestFence(jobDirectory: string): Promise<number> {
  const specs = await namesIn(jobDirectory)
  const leases = await namesIn(join(jobDirectory, 'leases'))
  const fences = [
    ...specs.map((name) => /^spec\.(\d+)\.json$/.exec(name)?.[1]),
    ...leases.map((name) => /^(\d+)\.json$/.exec(name)?.[1]),
  ]
  return Math.max(0, ...fences.filter((fence) => fence !== undefined).map(Number))
}

/** Claims a fence by creating the spec file. Of two launchers with the same fence, one gets false. */
export async function claimFence(input: {
  jobDirectory: string
  fence: number
  spec: Record<string, unknown>
}): Promise<boolean> {
  const { jobDirectory, fence, spec } = input
  await makeDirectory(attemptDirectory(jobDirectory, fence))
  try {
    const file = await open(specPath(jobDirectory, fence), 'wx')
    try {
      await file.writeFile(`${JSON.stringify(spec, null, 1)}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    return true
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    throw error
  }
}

/** Records the end of an attempt that will never begin. A report by the trainer itself is not overwritten. */
export async function withdrawClaim(input: { jobDirectory: string; fence: number; message: string }): Promise<void> {
  const { jobDirectory, fence, message } = input
  const report: ExitReport = { code: EX_UNAVAILABLE, class: NOT_LAUNCHED, message }
  try {
    await writeFile(exitPath(jobDirectory, fence), `${JSON.stringify(report)}\n`, { flag: 'wx' })
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  }
}

/** Class of the report that a launcher writes for a trainer that never started. */
export const NOT_LAUNCHED = 'not-launched'

/** The exit code that a trainer uses for the same condition. */
const EX_UNAVAILABLE = 69

function exitPath(jobDirectory: string, fence: number): string {
  return join(attemptDirectory(jobDirectory, fence), 'exit.json')
}

export function specPath(jobDirectory: string, fence: number): string {
  return join(jobDirectory, `spec.${fence}.json`)
}

/** Milliseconds since the fence was claimed, by the clock that `progressAge` uses; 0 if no launcher claimed it, and on a full disk. */
export async function claimAge(jobDirectory: string, fence: number): Promise<number> {
  return (await fileAgeMs(specPath(jobDirectory, fence), jobDirectory).catch(() => null)) ?? 0
}

/** The process that holds the fence, as it recorded itself; null before it has. */
export async function leaseHolder(jobDirectory: string, fence: number): Promise<HostProcess | null> {
  const lease = await readJson(join(jobDirectory, 'leases', `${fence}.json`))
  if (lease === null || typeof lease['pid'] !== 'number' || typeof lease['host'] !== 'string') return null
  const { host, pid, boot_id: boot, pid_start: start } = lease
  return {
    host,
    pid,
    bootId: typeof boot === 'string' ? boot : null,
    pidStart: typeof start === 'string' ? start : null,
  }
}

export async function exitReport(jobDirectory: string, fence: number): Promise<ExitReport | null> {
  const report = await readJson(exitPath(jobDirectory, fence))
  return report !== null && typeof report['code'] === 'number' ? (report as ExitReport) : null
}

/** Milliseconds since an attempt last reported progress, or since its claim if it never has. */
export async function progressAge(jobDirectory: string, fence: number): Promise<number> {
  const progress = join(attemptDirectory(jobDirectory, fence), 'progress.jsonl')
  return (await fileAgeMs(progress, jobDirectory)) ?? claimAge(jobDirectory, fence)
}

async function readJson(path: string): Promise<Record<string, unknown> | null> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
  } catch (error) {
    // The file is still being written.
    if (error instanceof SyntaxError || errnoOf(error) === 'ENOENT') return null
    throw error
  }
}

/** What a launcher stored to find its attempt again: a process, a container, a job number. Null if nothing is stored yet, or a machine
 *  lost its power before its disk had it: the launcher then finds the attempt in another way. */
export async function readHandle<T>({ job, fence }: Attempt): Promise<T | null> {
  return (await readJson(handlePath(job.jobDirectory, fence))) as T | null
}

export async function writeHandle({ job, fence }: Attempt, handle: unknown): Promise<void> {
  await writeFileAtomically(handlePath(job.jobDirectory, fence), `${JSON.stringify(handle)}\n`)
}

function handlePath(jobDirectory: string, fence: number): string {
  return join(attemptDirectory(jobDirectory, fence), 'handle.json')
}

// When the attempts of a training job began and ended, according to their files.

/** The text of an attempt's files; null for a missing file. */
export interface AttemptTexts {
  fence: number
  progress: string | null
  exit: string | null
}

/** Attempts in the order of their fences, without those whose launch was refused. */
export function attemptTimes(attempts: readonly AttemptTexts[]): JobAttemptTime[] {
  return attempts
    .toSorted((a, b) => a.fence - b.fence)
    .flatMap(({ fence, progress, exit }): JobAttemptTime[] => {
      const end = endOf(exit)
      if (end === NOT_LAUNCHED) return []
      const times = timesOf(progress ?? '')
      return [{ fence, startedAtMs: times.at(0) ?? null, endedAtMs: times.at(-1) ?? null, end }]
    })
}

/** Reads the times of a job whose files are on this machine. */
export async function readAttemptTimes(jobDirectory: string): Promise<JobAttemptTime[]> {
  const directory = join(jobDirectory, 'attempts')
  const names = await namesIn(directory)
  const fences = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const read = (fence: number, name: string) => unlessAbsent(readFile(join(directory, String(fence), name), 'utf8'))
  return attemptTimes(
    await Promise.all(
      fences.map(async (fence) => ({
        fence,
        progress: await read(fence, 'progress.jsonl'),
        exit: await read(fence, 'exit.json'),
      })),
    ),
  )
}

async function unlessAbsent<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Returns the times in ascending order. The last line of a killed trainer may be incomplete. */
function timesOf(progress: string): number[] {
  const times = progress.split('\n').flatMap((line) => {
    const time = parse(line)?.['t']
    return typeof time === 'number' ? [time] : []
  })
  return times.sort((a, b) => a - b)
}

function endOf(exit: string | null): string | null {
  const { code, class: name } = parse(exit ?? '') ?? {}
  return typeof name === 'string' ? name : typeof code === 'number' ? `exit ${code}` : null
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}
