import { access, constants, lstat, open, realpath, stat, unlink, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { errnoOf, makeDirectory, writeFileAtomically } from '../../platform/files.ts'

/** Paths by option; undefined if the option was not given. */
type Paths = Readonly<Record<string, string | undefined>>

/**
 * Checks, before work that may take hours, that results can be written, and creates their directories. Existing files stay unchanged, and
 * no file is left where there was none.
 * @throws LonghaulError `Config.Invalid` names option and path
 */
export async function requireWritable({
  files = {},
  directories = {},
  places = {},
}: {
  files?: Paths
  directories?: Paths
  /** The command decides what an existing file or directory there means. */
  places?: Paths
}): Promise<void> {
  refuseSharedPaths(files)
  for (const [option, path] of Object.entries(files))
    if (path !== undefined) await tryPath({ option, path, kind: 'file' })
  for (const [option, path] of Object.entries(directories))
    if (path !== undefined) await tryPath({ option, path, kind: 'directory' })
  for (const [option, path] of Object.entries(places))
    if (path !== undefined) await tryPath({ option, path, kind: 'place' })
}

/** The second result would replace the first one. A device or a pipe takes both. */
function refuseSharedPaths(files: Paths): void {
  const owners = new Map<string, string>()
  for (const [option, path] of Object.entries(files)) {
    if (path === undefined || resolve(path).startsWith('/dev/')) continue
    const owner = owners.get(resolve(path))
    owners.set(resolve(path), option)
    if (owner === undefined) continue
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected ${owner} and ${option} to name two files, got ${path} for both`,
      details: { path },
    })
  }
}

async function tryPath({
  option,
  path,
  kind,
}: {
  option: string
  path: string
  kind: 'file' | 'directory' | 'place'
}): Promise<void> {
  try {
    await makeDirectory(dirname(resolve(path)))
    // A link counts as what it leads to; one that leads nowhere is left to the writer.
    const found = await stat(path).catch(() => lstat(path).catch(() => null))
    if (found === null) {
      await (await open(path, 'ax')).close()
      await unlink(path)
    } else if (found.isDirectory()) {
      if (kind === 'file') throw Object.assign(new Error('it is a directory'), { code: 'EISDIR' })
      await access(path, constants.W_OK)
    } else if (found.isFile() && kind === 'directory') {
      throw Object.assign(new Error('it is a file'), { code: 'ENOTDIR' })
    } else if (found.isFile()) {
      // Pipes and devices are skipped, since opening them has side effects.
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

/**
 * Writes a result after the work, atomically where the file system allows it.
 * @throws LonghaulError `Config.Invalid` with the path
 */
export async function writeResult(path: string, content: string | Uint8Array): Promise<void> {
  try {
    const found = await stat(path).catch(() => null)
    if (found === null) await writeFileAtomically(path, content)
    // A pipe or a device takes the bytes directly. A link keeps its target.
    else if (found.isFile()) await replaceFile(await realpath(path), content, found.mode & 0o777)
    else await writeFile(path, content)
  } catch (cause) {
    if (cause instanceof LonghaulError) throw cause
    const errno = errnoOf(cause) ?? String(cause)
    const reason = errno === 'ENOSPC' || errno === 'EDQUOT' ? `no room is left on its disk (${errno})` : `got ${errno}`
    throw new LonghaulError({ code: 'Config.Invalid', message: `Expected to write ${path}, ${reason}`, cause })
  }
}

/** If the directory accepts no new file, or the file is a mount as in a container, only its content can be replaced. */
async function replaceFile(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  try {
    await writeFileAtomically(path, content, mode)
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EBUSY', 'EROFS', 'EXDEV'].includes(errnoOf(error) ?? '')) throw error
    await writeFile(path, content)
  }
}
