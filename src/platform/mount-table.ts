import { readFile } from 'node:fs/promises'

export interface Mount {
  /** Where it is mounted, seen from the process whose table was read. */
  path: string
  /** Such as `ext4` or `overlay`. */
  type: string
  /** Of the file system, such as `upperdir` of an overlay. */
  options: ReadonlyMap<string, string>
}

/** Reads a table of mounts in the order in which they were mounted; empty if it cannot be read. Format: proc(5), `/proc/PID/mountinfo`. */
export async function readMounts(table = '/proc/self/mountinfo'): Promise<Mount[]> {
  const text = await readFile(table, 'utf8').catch(() => '')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [mount = '', fileSystem = ''] = line.split(' - ')
      const [type = '', , options = ''] = fileSystem.split(' ')
      return { path: unescape(mount.split(' ')[4] ?? ''), type, options: new Map(options.split(',').map(keyAndValue)) }
    })
}

function keyAndValue(option: string): [string, string] {
  const at = option.indexOf('=')
  return at === -1 ? [option, ''] : [option.slice(0, at), unescape(option.slice(at + 1))]
}

/** The kernel escapes spaces, commas and similar characters as octal numbers. */
function unescape(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}
