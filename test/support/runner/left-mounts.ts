import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { mountsBelow } from '../../../src/stack/setup/engine-remains.ts'
import { type FileResult, WHOLE_FILE } from './file-result.ts'

const LIMIT_MS = 20_000

/** In the name of the run: a file that has ended is not known any more. */
export function failureOfRun(error: string): FileResult {
  return { file: 'npm test', seconds: 0, passed: 0, failures: [{ test: WHOLE_FILE, error }], skips: [] }
}

/** Unmounts what tests left mounted below `folder`, which would keep the folder. @returns a failure for each mount */
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
