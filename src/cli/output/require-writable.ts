import { access, constants, lstat, open, unlink } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { errnoOf, makeDirectory } from '../../platform/files.ts'

/** By the option that names it; undefined where the option was not given. */
type Paths = Readonly<Record<string, string | undefined>>

/**
 * Before work that may take hours: makes the directories of results and sees that each can be written. A file that is there stays as it
 * is, and where there was none there is none.
 * @throws LonghaulError `Config.Invalid` names option and path
 */
export async function requireWritable({
  files = {},
  directories = {},
}: {
  files?: Paths
  directories?: Paths
}): Promise<void> {
  for (const [option, path] of Object.entries(files))
    if (path !== undefined) await tryPath({ option, path, kind: 'file' })
  for (const [option, path] of Object.entries(directories))
    if (path !== undefined) await tryPath({ option, path, kind: 'directory' })
}

async function tryPath({
  option,
  path,
  kind,
}: {
  option: string
  path: string
  kind: 'file' | 'directory'
}): Promise<void> {
  try {
    await makeDirectory(dirname(resolve(path)))
    const found = await lstat(path).catch(() => null)
    if (found === null) {
      await (await open(path, 'ax')).close()
      await unlink(path)
    } else if (found.isDirectory()) {
      if (kind === 'file') throw Object.assign(new Error('it is a directory'), { code: 'EISDIR' })
      await access(path, constants.W_OK)
    } else if (found.isFile()) {
      // A pipe or a device is left alone: to open it has effects.
      await (await open(path, 'a')).close()
    }
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected ${option} to name a path that can be written, got ${path} (${errnoOf(cause) ?? String(cause)})`,
      details: { path },
      cause,
    })
  }
}
