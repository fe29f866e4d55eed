import { escapeBytes } from '../sandbox/runner-wire.ts'
import { readScript } from '../sandbox/runner-files.ts'
import type { FileToPack } from '../engine/tar.ts'
import { shellQuote } from '../../../platform/shell-quote.ts'

/**
 * A longer file is uploaded. The shell reads one of this length as text in 3 ms, or 15 ms if its bytes must be escaped; an upload costs
 * the engine 57 ms. A single argument of a program would end at 128 KiB, where `printf` is not of the shell.
 */
export const MAX_INLINE_BYTES = 96 * 1024

/** Text that `printf %s` prints unchanged. */
const PLAIN = /^[\t\n\x20-\x7e]*$/

/** Command of a grading's first process. It reads its script from stdin, because an upload of any size costs the engine 57
 *  ms of CPU. Some versions of `head` read beyond the requested bytes of a pipe, so nothing may follow the script. */
export function gradeCommand(seconds: number): string[] {
  return ['/bin/sh', '-c', 'read -r lh_bytes && eval "$(head -c "$lh_bytes")"', 'grade', String(seconds)]
}

export interface GradeInput {
  /** Written to the main process's stdin. */
  text: string
  /** Files that are too long for the text: they must be there before it is written. */
  large: readonly FileToPack[]
}

export interface EncodeInput {
  files: readonly FileToPack[]
  /** What the main process runs after it has written the files. */
  script: 'audit.sh' | 'grade.sh'
  /** Random separator between the parts of an answer. No process inside may know it before it is sent. */
  mark: string
  /** How long the script waits after its answer for its end from outside. @default it ends at once */
  lingerS?: number
}

export async function encodeGradeInput({ files, script, mark, lingerS = 0 }: EncodeInput): Promise<GradeInput> {
  const { true: large = [], false: small = [] } = Object.groupBy(files, ({ body }) =>
    String((body?.length ?? 0) > MAX_INLINE_BYTES),
  )
  // A truncated patch or script must not be judged.
  const making = [...folders(small), ...small.flatMap(writing)].map((line) => `${line} || exit 1`)
  const text = [`lh_mark=${mark} lh_linger=${lingerS}`, 'umask 022', ...making, await readScript(script)].join('\n')
  return {
    text: `${Buffer.byteLength(text)}\n${text}`,
    large,
  }
}

function folders(files: readonly FileToPack[]): string[] {
  const own = files.filter(({ body }) => body === undefined).map(({ name }) => shellQuote(`/${name}`))
  const parents = new Set(files.map(({ name }) => `/${name.split('/').slice(0, -1).join('/')}`))
  // Every image has the root directory.
  parents.delete('/')
  parents.delete('/tmp')
  // An upload of long files has made some of them, open to other users.
  const closing = `mkdir -p ${own.join(' ')} && chmod 700 ${own.join(' ')}`
  return [closing, `mkdir -p ${[...parents].map(shellQuote).join(' ')}`]
}

function writing({ name, body, mode }: FileToPack): string[] {
  if (body === undefined) return []
  const path = shellQuote(`/${name}`)
  const bytes = Buffer.from(body)
  const text = bytes.toString('latin1')
  const content = PLAIN.test(text) ? `%s ${shellQuote(text)}` : `%b ${shellQuote(escapeBytes(bytes))}`
  return [`printf ${content} >${path}`, ...((mode & 0o100) === 0 ? [] : [`chmod ${mode.toString(8)} ${path}`])]
}
