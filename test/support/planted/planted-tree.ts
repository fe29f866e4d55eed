/** Copies of the repository in which one statement is false. */
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { readFile, symlink, unlink, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Edit {
  /** Relative to the repository's root. */
  file: string
  /** Must be in the file exactly once. */
  replace: string
  by: string
}

export interface PlantedTree {
  root: string
  remove(): void
}

/** Installed, generated or git's own folders, which no test of the code reads from a copy. */
const LEFT_OUT = new Set(['.git', 'node_modules', 'dist', '__pycache__', '.pytest_cache', '.ruff_cache'])

/**
 * Numbers of the existing copies; a new copy takes the lowest free one. For a repeated path Node reuses the compiled code of every
 * unchanged file, which is half of a test process's cost.
 */
const inUse = new Set<number>()
const home = join(tmpdir(), `planted-${process.pid}`)

/**
 * A copy of the tree at `root` with the edit. Files are hard links if the file system allows it, so a copy is cheap; the edited file
 * is a separate one.
 * @throws Error if the edit does not fit the code, or makes a file invalid TypeScript
 */
export async function plantTree(root: string, edit: Edit | null): Promise<PlantedTree> {
  let number = 0
  while (inUse.has(number)) number += 1
  inUse.add(number)
  const copy = join(home, String(number))
  const remove = (): void => {
    rmSync(copy, { recursive: true, force: true })
    inUse.delete(number)
    if (inUse.size === 0) rmSync(home, { recursive: true, force: true })
  }
  try {
    copyFolder(root, copy)
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
    if (edit !== null) await plant(copy, edit)
    return { root: copy, remove }
  } catch (error) {
    remove()
    throw error
  }
}

/** Synchronous, because promises cost twice as much as the links of two thousand files. */
function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (LEFT_OUT.has(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyFolder(source, target)
    else if (entry.isFile()) linkOrCopy(source, target)
  }
}

function linkOrCopy(source: string, target: string): void {
  try {
    linkSync(source, target)
  } catch {
    copyFileSync(source, target)
  }
}

/** The text with the edit. @throws Error if the edit does not fit, or makes the text invalid TypeScript */
export function applyEdit(text: string, { file, replace, by }: Edit): string {
  const found = text.split(replace).length - 1
  if (found !== 1) {
    throw new Error(`Expected the text to replace once in ${file}, found it ${found} times:\n${replace}`)
  }
  // A function, because `$` in the text stands for itself.
  const planted = text.replace(replace, () => by)
  if (planted === text) throw new Error(`Expected the plant to change ${file}`)
  // A plant must be a false statement and not a syntax error: any test would detect a file that does not load.
  if (file.endsWith('.ts')) requireTypeScript(file, planted)
  return planted
}

function requireTypeScript(file: string, text: string): void {
  try {
    stripTypeScriptTypes(text)
  } catch (cause) {
    throw new Error(`Expected the plant to leave TypeScript in ${file}`, { cause })
  }
}

async function plant(root: string, edit: Edit): Promise<void> {
  const path = join(root, edit.file)
  const planted = applyEdit(await readFile(path, 'utf8'), edit)
  // Unlinks first, because writing through the link would change the original.
  await unlink(path)
  await writeFile(path, planted)
}
