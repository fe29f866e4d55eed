import { readFile } from 'node:fs/promises'

import type { ToolSettings } from '../../contracts/sandbox.types.ts'
import { type FileToPack, packFiles } from './tar.ts'

const SCRIPTS = [
  'capture.sh',
  'clock.sh',
  'command.sh',
  'grade.sh',
  'journal.sh',
  'lease.sh',
  'prepare.sh',
  'runner.sh',
  'snapshot.sh',
  'start.sh',
  'supervise.sh',
  'sweep.sh',
  'tools-edit.sh',
  'tools-window.sh',
  'tools.sh',
] as const

export type RunnerScript = (typeof SCRIPTS)[number]

/** Where everything of ours lies inside a container. */
export const HOME = '/.lh'

const texts = new Map<RunnerScript, Promise<Buffer>>()

export async function packScripts(names: readonly RunnerScript[] = SCRIPTS): Promise<FileToPack[]> {
  const bodies = await Promise.all(names.map(readScript))
  return names.map((name, index) => ({ name: `.lh/bin/${name}`, body: bodies[index] as Buffer, mode: 0o700 }))
}

function readScript(name: RunnerScript): Promise<Buffer> {
  const known = texts.get(name)
  if (known !== undefined) return known
  const text = readFile(new URL(`./runner/${name}`, import.meta.url))
  texts.set(name, text)
  return text
}

/** The engine writes this file only where it manages the network, and tests open sockets on `localhost`. */
export const HOSTS_FILE: FileToPack = {
  name: 'etc/hosts',
  body: Buffer.from('127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n'),
  mode: 0o644,
}

export interface SandboxFilesInput {
  tools: ToolSettings
  repoDir: string
  cpus: number
}

/** Everything a sandbox needs before it starts, as one archive for its root directory. */
export async function packSandboxFiles({ tools, repoDir, cpus }: SandboxFilesInput): Promise<Buffer> {
  const settings = [
    `LH_WINDOW=${tools.windowLines} LH_OVERLAP=${tools.windowOverlap} LH_PATHS=${tools.pathForm}`,
    `LH_REPO=${shellQuote(repoDir)}`,
    '',
  ].join('\n')
  return packFiles([
    { name: '.lh/', mode: 0o700 },
    { name: '.lh/bin/', mode: 0o700 },
    HOSTS_FILE,
    ...(await packScripts()),
    textFile('.lh/settings', settings),
    textFile('.lh/environment', environment(cpus)),
    textFile('.lh/lease', 'start\n'),
  ])
}

/** Set for every command: no pager, no prompt, no progress bar, and thread pools of the size of the CPU share. */
function environment(cpus: number): string {
  const threads = String(Math.max(1, Math.floor(cpus)))
  const fixed = {
    PAGER: 'cat',
    GIT_PAGER: 'cat',
    MANPAGER: 'cat',
    LESS: '-R',
    TERM: 'dumb',
    PIP_PROGRESS_BAR: 'off',
    TQDM_DISABLE: '1',
    PYTHONUNBUFFERED: '1',
    DEBIAN_FRONTEND: 'noninteractive',
    GIT_TERMINAL_PROMPT: '0',
    LANG: 'C.UTF-8',
  }
  // Some runtimes count the host's processors and would start a thread for each.
  const pools = ['OMP', 'OPENBLAS', 'MKL', 'NUMEXPR', 'RAYON'].map((pool) => `${pool}_NUM_THREADS`)
  const sized = [...pools, 'LOKY_MAX_CPU_COUNT', 'PYTEST_XDIST_AUTO_NUM_WORKERS', 'GOMAXPROCS']
  const all = [...Object.entries(fixed), ...sized.map((name) => [name, threads] as const)]
  return `${all.map(([name, value]) => `export ${name}=${shellQuote(value)}`).join('\n')}\n`
}

export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

export function textFile(name: string, text: string): FileToPack {
  return { name, body: Buffer.from(text), mode: 0o600 }
}
