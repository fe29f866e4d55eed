import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { rotateLog } from '../../platform/files.ts'

/** The output of a build. The user's cache holds the complete file, and that of the build before as `PATH.1`; the end is used in errors. */
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
  await rotateLog(path, 0)
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
