import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { rotateLog } from '../../platform/files.ts'

/** The output of a build. The user's cache holds the complete file, and that of the build before as `PATH.1`; the end is used in errors. */
export interface BuildLog {
  path: string
  line(text: string): void
  /** The last lines since `mark`, each without what steers a terminal and cut to a length that a message may have. */
  tail(): string
  mark(): void
  close(): Promise<void>
}

const TAIL_LINES = 12
const TAIL_CHARACTERS = 300

export async function openBuildLog(path: string, redact: (text: string) => string): Promise<BuildLog> {
  await rotateLog(path, 0)
  const file = createWriteStream(path, { flags: 'w', mode: 0o600 })
  let tail: string[] = []
  return {
    path,
    line(text) {
      const clean = redact(text)
      file.write(`${clean}\n`)
      const shown = plain(clean)
      if (shown.trim() !== '') tail = [...tail.slice(1 - TAIL_LINES), shown]
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

/** Installers color their lines, and what they print comes from packages of strangers. */
function plain(line: string): string {
  const start = line.slice(0, 4 * TAIL_CHARACTERS)
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  const text = start.replaceAll(/\u001b\[[0-?]*[ -/]*[@-~]/g, '').replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
  return text.length <= TAIL_CHARACTERS && start.length === line.length ? text : `${text.slice(0, TAIL_CHARACTERS)}…`
}
