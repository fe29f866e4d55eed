import { readFile } from 'node:fs/promises'
import { readScript } from '../../sandbox/runner-files.ts'

const texts = new Map<string, Promise<string>>()

/** The program that runs hidden tests a second time inside a grading container. */
export async function readAuditScript(): Promise<string> {
  return withoutComments(await withProcesses(`${await readHere('questions.py')}${await readHere('audit.py')}`))
}

/** Each grading is given the program through its shell, which takes no more than `MAX_INLINE_BYTES` of a file. Lines that are comments and
 *  descriptions that are not the whole body of what they describe are left out; no other text of it looks like these. A level of
 *  indentation is one space. */
function withoutComments(program: string): string {
  return program
    .replaceAll(/^[ \t]*#.*\n/gm, '')
    .replaceAll(/^([ \t]+)"""[^"]*"""\n(?=\n*\1\S)/gm, '')
    .replaceAll(/^(?: {4})+/gm, (indent) => ' '.repeat(indent.length / 4))
}

/** The program that lays the tree in which it does, and takes it back. */
export async function readTreeScript(): Promise<string> {
  return withProcesses(await readScript('tree.py'))
}

async function withProcesses(program: string): Promise<string> {
  return `${await readHere('processes.py')}${program}`
}

function readHere(name: string): Promise<string> {
  const text = texts.get(name) ?? readFile(new URL(`./${name}`, import.meta.url), 'utf8')
  texts.set(name, text)
  return text
}
