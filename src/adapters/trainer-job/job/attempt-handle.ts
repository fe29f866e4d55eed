import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf } from '../../../platform/errno.ts'
import { attemptDirectory } from './attempt-files.ts'
import type { Attempt } from '../launchers/launcher.types.ts'

/** What a launcher must know to find its attempt again: a process, a container, a job number. Null before it was written. */
export async function readHandle<T>({ job, fence }: Attempt): Promise<T | null> {
  try {
    return JSON.parse(await readFile(handlePath(job.jobDirectory, fence), 'utf8')) as T
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null
    throw error
  }
}

export async function writeHandle({ job, fence }: Attempt, handle: unknown): Promise<void> {
  const path = handlePath(job.jobDirectory, fence)
  await writeFile(`${path}.tmp`, `${JSON.stringify(handle)}\n`)
  await rename(`${path}.tmp`, path)
}

function handlePath(jobDirectory: string, fence: number): string {
  return join(attemptDirectory(jobDirectory, fence), 'handle.json')
}
