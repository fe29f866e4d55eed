import { readFile } from 'node:fs/promises'

import { shellQuote } from './runner-files.ts'

/** Variables of the exec that starts a runner, each with the scripts that it holds. They come with the request and not
 *  from the container's disk: what lies there may have been changed from inside. */
const VARIABLES = {
  LH_RUNNER: [
    'clock.sh',
    'room.sh',
    'disk.sh',
    'sweep.sh',
    'state.sh',
    'supervisor.sh',
    'journal.sh',
    'prepare.sh',
    'capture.sh',
    'tree.sh',
    'runner.sh',
  ],
  LH_SUPERVISOR: ['clock.sh', 'room.sh', 'disk.sh', 'state.sh', 'watch.sh', 'supervise.sh'],
  LH_SNAPSHOT: ['snapshot.sh'],
  // The runner writes these two to the disk, for the agent's shell.
  LH_COMMAND: ['command.sh'],
  LH_TOOLS: ['state.sh', 'tools-window.sh', 'tools-edit.sh', 'tools.sh'],
} as const

export interface BootInput {
  hasInit: boolean
  /** One line. */
  request: string
}

/** What the main process of a container that is attached to reads first: how to start a runner, and its first request. */
export async function bootText({ hasInit, request }: BootInput): Promise<string> {
  const [start, environment] = await Promise.all([readScript('start.sh'), runnerEnvironment()])
  const assignments = environment.map((variable) => {
    const end = variable.indexOf('=') + 1
    return `${variable.slice(0, end)}${shellQuote(variable.slice(end))}`
  })
  const words = [firstProcess(hasInit), ...request.trimEnd().split(' ')].map(shellQuote)
  const text = [...assignments, `set -- ${words.join(' ')}`, start].join('\n')
  return `${Buffer.byteLength(text)}\n${text}`
}

/** What the runner is told about the container's first process. */
export function firstProcess(hasInit: boolean): 'init' | 'loop' {
  return hasInit ? 'init' : 'loop'
}

const texts = new Map<string, Promise<string>>()

export async function runnerEnvironment(): Promise<string[]> {
  return Promise.all(
    Object.entries(VARIABLES).map(async ([name, scripts]) => `${name}=${(await joined(scripts)).trimEnd()}`),
  )
}

export async function readScript(name: string): Promise<string> {
  const known = texts.get(name)
  if (known !== undefined) return known
  const text = readFile(new URL(`./runner/${name}`, import.meta.url), 'utf8')
  texts.set(name, text)
  return text
}

/** Main process of a sandbox. Its text is an argument, which saves an upload; comments are left out, for agents see it
 *  in the list of processes. */
export async function leaseCommand(seconds: string, rounds: string): Promise<string[]> {
  const text = (await readScript('lease.sh')).replaceAll(/^#.*\n/gm, '').trimEnd()
  return ['/bin/sh', '-c', text, 'lease', seconds, rounds]
}

async function joined(names: readonly string[]): Promise<string> {
  const text = (await Promise.all(names.map(readScript))).join('\n')
  // They travel with each connection.
  return text.replaceAll(/^ *#.*\n/gm, '')
}
