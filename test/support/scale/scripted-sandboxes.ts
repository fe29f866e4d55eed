/**
 * Sandboxes without containers, for measurements of everything around them. Each is a file with the marks of its turns, so like a
 * container it outlives its host's process, like the real runner it refuses a turn that does not follow, and it records what ran in
 * it.
 */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import type { SandboxState } from '../../../src/contracts/episodes.types.ts'
import type {
  SandboxHandle,
  SandboxHost,
  TurnMark,
  TurnRequest,
  TurnResult,
} from '../../../src/contracts/sandbox.types.ts'
import { errnoOf } from '../../../src/platform/files.ts'
import { sha256Hex } from '../../../src/platform/hash.ts'

const STATE: SandboxState = {
  cwd: '/testbed',
  environment: '',
  umask: '0022',
  openFile: null,
  windowTop: 0,
  submitted: false,
}

/** The size of a listing's or a failing test's output. */
const OUTPUT = Buffer.from('total 48 drwxr-xr-x 1 root root 4096 module.py\n'.repeat(16))

interface ScriptedSandboxesOptions {
  /** One file per sandbox; closed ones are in `closed` below the folder. */
  folder: string
  hostQueue: string
}

export function createScriptedSandboxes({ folder, hostQueue }: ScriptedSandboxesOptions): SandboxHost {
  mkdirSync(join(folder, CLOSED), { recursive: true })
  /** Marks by name; a restarted process reads the files of its predecessors. */
  const known = new Map<string, string[]>()
  const journalOf = ({ name }: { name: string }): string[] => {
    const kept = known.get(name)
    if (kept !== undefined) return kept
    const read = readMarks(join(folder, name))
    if (read === null) throw lost(name)
    known.set(name, read)
    return read
  }
  const requireAt = (sandbox: { name: string }, after: TurnMark | null): string[] => {
    const journal = journalOf(sandbox)
    const world = journal.at(-1) ?? '-'
    if (world === textOf(after)) return journal
    throw new LonghaulError({
      code: 'Sandbox.Behind',
      message: 'Expected a sandbox that has run the turn before',
      details: { name: sandbox.name, world },
    })
  }
  return {
    async open({ episode, placement, image }) {
      const name = `${episode.replaceAll('/', '+')}+p${placement}`
      if (!existsSync(join(folder, name))) writeFileSync(join(folder, name), '')
      return {
        name,
        containerId: sha256Hex(name),
        image,
        imageDigest: `sha256:${sha256Hex(image)}`,
        hostQueue,
        repoDir: '/testbed',
        startCommit: 'e'.repeat(40),
      }
    },
    async runTurn(sandbox: SandboxHandle, request: TurnRequest): Promise<TurnResult> {
      const mark = `${request.turn}.${request.token}`
      if (journalOf(sandbox).at(-1) === mark) return resultOf(request)
      const journal = requireAt(sandbox, request.after)
      appendFileSync(join(folder, sandbox.name), `${mark}\n`)
      journal.push(mark)
      return resultOf(request)
    },
    async takeOver(sandbox) {
      journalOf(sandbox)
    },
    async renew(sandbox) {
      journalOf(sandbox)
    },
    async initialState() {
      return STATE
    },
    async treeHash(sandbox, after) {
      // Equal worlds have run equal turns, because tokens are part of the records from which they are rebuilt.
      return sha256Hex(requireAt(sandbox, after).join('\n'))
    },
    async capture(sandbox, { after }) {
      requireAt(sandbox, after)
      return { patch: new Uint8Array(), lostFiles: 0 }
    },
    async close({ name }) {
      known.delete(name)
      if (existsSync(join(folder, name))) renameSync(join(folder, name), join(folder, CLOSED, name))
    },
    grade: noPatches,
    audit: noPatches,
  }
}

function noPatches(): never {
  throw new Error('Expected empty patches alone, which nothing has to grade')
}

const CLOSED = 'closed'

/** Executions in the sandboxes of a folder, closed ones too: marks by the sandbox's name. */
export function readExecutions(folder: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const place of [folder, join(folder, CLOSED)]) {
    for (const entry of readdirSync(place, { withFileTypes: true })) {
      const marks = entry.isFile() ? readMarks(join(place, entry.name)) : null
      if (marks !== null) found.set(entry.name, marks)
    }
  }
  return found
}

/** Null if the sandbox is gone or was closed: then its marks are among the closed ones. */
function readMarks(path: string): string[] | null {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Number of executions so far, in the sandboxes of all folders. */
export function countExecutions(folders: readonly string[]): number {
  let count = 0
  for (const folder of folders) {
    if (!existsSync(folder)) continue
    for (const marks of readExecutions(folder).values()) count += marks.length
  }
  return count
}

function resultOf({ command }: TurnRequest): TurnResult {
  return {
    exitCode: 0,
    reason: 'exit',
    head: OUTPUT,
    tail: new Uint8Array(),
    omittedBytes: 0,
    outputBytes: OUTPUT.length,
    wallMs: 1,
    oomKilled: false,
    state: { ...STATE, submitted: command.trim() === 'submit' },
  }
}

function textOf(mark: TurnMark | null): string {
  return mark === null ? '-' : `${mark.turn}.${mark.token}`
}

function lost(name: string): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Lost', message: 'The sandbox is gone', details: { name } })
}
