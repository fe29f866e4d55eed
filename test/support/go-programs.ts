/** Test programs, built from a pinned Go module of `infra` into the user cache, once for each state of its lock files. */
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../src/contracts/errors.ts'
import { exists } from '../../src/platform/files.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { buildGoPrograms, findGo, moduleKey } from '../../src/stack/setup/go-build.ts'

interface GoProgramsInput {
  /** Name in messages: `Helm`. */
  what: string
  module: string
  /** Raised by hand when flags change the programs. */
  revision: string
  commands: readonly string[]
  linkerFlags?: string
  /** Path in the cache; `key` identifies the state of the lock files. */
  target: (key: string) => string
  complete?: (folder: string) => Promise<void>
  /** The command that builds the programs, if that takes too long for a test; null: they are built on demand. */
  builtBy: string | null
}

/** Folder of the programs, or why they are missing. */
export async function findGoPrograms(input: GoProgramsInput): Promise<{ path: string } | { reason: string }> {
  const { what, module, revision, commands, linkerFlags = '', complete, builtBy } = input
  const path = join(stackPaths().cacheDir, input.target(await moduleKey({ module, revision })))
  if (await exists(path)) return { path }
  if (builtBy !== null) return { reason: `${what} is not built: ${builtBy}` }
  const context = { log: console.error, saw: () => undefined, signal: new AbortController().signal }
  const go = await findGo({ module, context })
  if (!go.usable) return { reason: `${what} cannot be built: ${go.reason}` }
  await mkdir(dirname(path), { recursive: true })
  try {
    await buildGoPrograms({
      what,
      go: go.path,
      module,
      commands,
      linkerFlags,
      // Compiles shared packages once, without C, because a pod's process is alone in its image.
      flags: ['-trimpath'],
      env: { CGO_ENABLED: '0' },
      niceness: 15,
      // Other work on a busy machine goes first.
      silenceMs: 2 * 3_600_000,
      target: path,
      ...(complete === undefined ? {} : { complete }),
      context,
    })
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { reason: `${what} cannot be built: ${error.message.trimEnd().split('\n').at(-1)?.trim()}` }
  }
  return { path }
}
