/** When the attempts of a training job began and ended, according to their files. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JobAttemptTime } from '../../../contracts/costs.types.ts'
import { errnoOf } from '../../../platform/files.ts'
import { NOT_LAUNCHED } from './attempt-files.ts'

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
  const names = (await unlessAbsent(readdir(directory))) ?? []
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
