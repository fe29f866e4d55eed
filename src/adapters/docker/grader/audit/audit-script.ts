import { readFile } from 'node:fs/promises'
import { readScript } from '../../sandbox/runner-files.ts'

const texts = new Map<string, Promise<string>>()

/** The program that runs hidden tests a second time inside a grading container. */
export async function readAuditScript(): Promise<string> {
  return withProcesses(await readHere('audit.py'))
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
