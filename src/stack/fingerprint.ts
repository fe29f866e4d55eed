import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'

import { sha256 } from '../platform/files.ts'
import { isCheckout, PACKAGE_ROOT } from './package-root.ts'

/** Of everything the stack's processes run from this package, so that `up` after an edit does not leave old code running. */
export async function codeFingerprint(): Promise<string> {
  const parts: string[] = []
  for (const folder of [isCheckout() ? 'src' : 'dist', 'trainer/longhaul_trainer', 'package-lock.json']) {
    for (const file of await codeFiles(join(PACKAGE_ROOT, folder))) {
      parts.push(relative(PACKAGE_ROOT, file), await readFile(file, 'utf8').catch(() => ''))
    }
  }
  return sha256(...parts).slice(0, 16)
}

async function codeFiles(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => null)
  if (entries === null) return [path]
  return entries
    .filter((entry) => entry.isFile() && /\.(ts|js|py|sh)$/.test(entry.name) && !entry.name.includes('.test.'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}
