import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { LogProfileName } from '../../../src/grading/log-profiles.ts'

/** Folders of a harness whose code determines its answers. */
const CODE: Record<LogProfileName, readonly string[]> = {
  'swebench-4.1': ['swebench'],
  'swebench-5': ['swebench'],
  'fork-4.0.3': ['swebench'],
  'rebench-v2': ['lib', 'scripts'],
}

/** Hash of each harness at the version that Longhaul imitates. */
const EXPECTED: Record<LogProfileName, { upstream: string; sha256: string }> = {
  'swebench-4.1': {
    upstream: 'PyPI swebench 4.1.0',
    sha256: '9c496a392985ed0fb265fa1c6231ef6dfbe2d2b08159b82032fcc4eb44c640a7',
  },
  'swebench-5': {
    upstream: 'PyPI swebench 5.0.2',
    sha256: 'b658165e24eb8c4a27d12586a68593ff27c4f8b3794a41991870b2000f726cc5',
  },
  'fork-4.0.3': {
    upstream: 'SWE-rebench/SWE-bench-fork 39316f79cd51c144fb0c62c157ef4739e7653577',
    sha256: 'e1f8cae34fbe936a0c031de9846ad6014829b0321964ae3cd9b68afb2b5b9a06',
  },
  'rebench-v2': {
    upstream: 'SWE-rebench/SWE-rebench-V2 c71902a8cf8d2b725f63d51f199f4d3e56f68d2d',
    sha256: '97c2f720c558b3e473625fba7eb5797ac868338061b8b3b673b5c6aadce55543',
  },
}

/** SHA-256 over names and bytes of all files of a harness's code except compiled ones, in the order of their names. */
export async function hashHarness(name: LogProfileName, folder: string): Promise<string> {
  const hash = createHash('sha256')
  for (const part of CODE[name]) {
    const entries = await readdir(join(folder, part), { recursive: true, withFileTypes: true })
    const files = entries
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.pyc'))
      .map((entry) => join(entry.parentPath, entry.name))
    for (const file of files.toSorted()) {
      hash.update(`${relative(folder, file)}\0`)
      hash.update(await readFile(file))
    }
  }
  return hash.digest('hex')
}

/**
 * A harness is an oracle only at its stated version: a patched checkout would agree with anything.
 * @throws Error that names both hashes
 */
export async function requireHarness(
  name: LogProfileName,
  folder: string,
): Promise<{ upstream: string; sha256: string }> {
  const { upstream, sha256 } = EXPECTED[name]
  const found = await hashHarness(name, folder).catch((error: Error) => error.message)
  if (found === sha256) return { upstream, sha256 }
  throw new Error(`Expected ${folder} to hold ${upstream}, whose code hashes to ${sha256}; got ${found}`)
}
