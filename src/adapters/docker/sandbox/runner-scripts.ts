import { readFile } from 'node:fs/promises'

/** Where every sandbox finds the runner and its scripts: a read-only mount, which nothing inside can cover or rename. */
export const RUNNER_FOLDER = '/.lh-runner'

/** Files there, each with the parts that it is made of. */
const SCRIPTS = {
  'snapshot.sh': ['snapshot.sh'],
  'command.sh': ['command.sh'],
  'tools.sh': ['state.sh', 'tools-window.sh', 'tools-edit.sh', 'tools.sh'],
  'capture.sh': ['git.sh', 'capture.sh'],
  'tree.sh': ['git.sh', 'tree.sh'],
  'reset.sh': ['reset.sh'],
} as const

/** Text by file name. */
export async function runnerScripts(): Promise<Record<string, string>> {
  const texts = Object.entries(SCRIPTS).map(async ([name, parts]) => [name, await joined(parts)] as const)
  return Object.fromEntries(await Promise.all(texts))
}

/** First process of a sandbox: it ends, and the sandbox with it, after so many rounds of so many seconds without a request. */
export function runnerCommand(seconds: string, rounds: string): string[] {
  return [`${RUNNER_FOLDER}/runner`, 'init', seconds, rounds]
}

const texts = new Map<string, Promise<string>>()

export async function readScript(name: string): Promise<string> {
  const known = texts.get(name)
  if (known !== undefined) return known
  const text = readFile(new URL(`./runner/${name}`, import.meta.url), 'utf8')
  texts.set(name, text)
  return text
}

async function joined(names: readonly string[]): Promise<string> {
  const text = (await Promise.all(names.map(readScript))).join('\n')
  // `tools.sh` is read by every call of a tool.
  return text.replaceAll(/^ *#.*\n/gm, '')
}
