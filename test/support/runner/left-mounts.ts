import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { mountsBelow } from '../../../src/stack/setup/private-engine.ts'
import { type FileResult, WHOLE_FILE } from './file-result.ts'

const LIMIT_MS = 20_000

/** A failure of the whole run, because the file that caused it is no longer known. */
export function failureOfRun(error: string): FileResult {
  return { file: 'npm test', seconds: 0, passed: 0, failures: [{ test: WHOLE_FILE, error }], skips: [] }
}

/** Unmounts leftover mounts of tests below `folder`, which would prevent its removal. @returns a failure for each mount */
export async function unmountLeft(folder: string): Promise<FileResult[]> {
  const found: FileResult[] = []
  for (const mount of await mountsBelow([folder])) {
    const kept = await promisify(execFile)('umount', ['-l', mount], { timeout: LIMIT_MS }).then(
      () => '',
      (error: Error) => `, and it cannot be unmounted: ${error.message.trim()}`,
    )
    found.push(failureOfRun(`a test left a mount at ${mount}${kept}`))
  }
  return found
}
