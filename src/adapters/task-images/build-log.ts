import { createWriteStream } from 'node:fs'

import { dirname } from 'node:path'
import { finished } from 'node:stream/promises'
import { makeDirectory } from '../../platform/files.ts'

/** The output of a build. The user's cache holds the complete file, and the end is used in errors. */
export interface BuildLog {
  path: string
  line(text: string): void
  /** The last lines since `mark`. */
  tail(): string
  mark(): void
  close(): Promise<void>
}

const TAIL_LINES = 12

export async function openBuildLog(path: string, redact: (text: string) => string): Promise<BuildLog> {
  await makeDirectory(dirname(path))
  const file = createWriteStream(path, { flags: 'w', mode: 0o600 })
  let tail: string[] = []
  return {
    path,
    line(text) {
      const clean = redact(text)
      file.write(`${clean}\n`)
      if (clean.trim() !== '') tail = [...tail.slice(1 - TAIL_LINES), clean]
    },
    tail: () => tail.join('\n'),
    mark() {
      tail = []
    },
    async close() {
      file.end()
      await finished(file)
    },
  }
}
