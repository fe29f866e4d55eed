import { readFile } from 'node:fs/promises'
import { listProcesses, type RunningProcess, signalProcess, waitUntilGone } from '../../../src/platform/processes.ts'

const ENDS_WITHIN_MS = 5_000

/**
 * Ends all leftover processes of tests: every process whose folder for temporary files is `scratch` or lies below it. A separate
 * session does not hide a process, because it inherits the environment.
 * @returns the processes that were ended, oldest first
 */
export async function endLeftovers(scratch: string): Promise<RunningProcess[]> {
  const found: RunningProcess[] = []
  for (const one of listProcesses()) {
    if (one.pid !== process.pid && (await hasTemporaryFolder(one.pid, scratch))) found.push(one)
  }
  for (const one of found) signalProcess(one, 'SIGKILL')
  await Promise.all(found.map((identity) => waitUntilGone({ identity, timeoutMs: ENDS_WITHIN_MS })))
  return found
}

async function hasTemporaryFolder(pid: number, folder: string): Promise<boolean> {
  // The process may have ended since, or belong to another user.
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
  return environment.split('\0').some((entry) => entry === `TMPDIR=${folder}` || entry.startsWith(`TMPDIR=${folder}/`))
}
