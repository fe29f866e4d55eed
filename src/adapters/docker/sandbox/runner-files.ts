import type { ToolSettings } from '../../../contracts/sandbox.types.ts'
import type { FileToPack } from '../engine/tar.ts'
import { shellQuote } from '../../../platform/run-command.ts'
import { readFile } from 'node:fs/promises'

/** The engine writes this file only if it manages the network, and tests open sockets on `localhost`. */
export const HOSTS_FILE: FileToPack = {
  name: 'etc/hosts',
  body: Buffer.from('127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n'),
  mode: 0o644,
}

export interface SandboxSettings {
  tools: ToolSettings
  repoDir: string
  cpus: number
  /** Loopback port of the proxy; null without a network. */
  proxyPort: number | null
}

/** Settings of the tools in the sandbox, as shell assignments. */
export function settingsText({ tools, repoDir }: SandboxSettings): string {
  return [
    `LH_WINDOW=${tools.windowLines} LH_OVERLAP=${tools.windowOverlap} LH_PATHS=${tools.pathForm}`,
    `LH_REPO=${shellQuote(repoDir)}`,
    '',
  ].join('\n')
}

/** Environment of every command: no pager, no prompt, no progress bar, and thread pools sized to the CPU share. */
export function environmentText({ cpus, proxyPort }: SandboxSettings): string {
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
  // Some runtimes size their thread pool by the processors of the host.
  const pools = ['OMP', 'OPENBLAS', 'MKL', 'NUMEXPR', 'RAYON'].map((pool) => `${pool}_NUM_THREADS`)
  const sized = [...pools, 'LOKY_MAX_CPU_COUNT', 'PYTEST_XDIST_AUTO_NUM_WORKERS', 'GOMAXPROCS']
  const all = [...Object.entries(fixed), ...sized.map((name) => [name, threads] as const), ...proxyVariables(proxyPort)]
  return `${all.map(([name, value]) => `export ${name}=${shellQuote(value)}`).join('\n')}\n`
}

/** Programs read either the upper-case or the lower-case spelling. */
function proxyVariables(port: number | null): [name: string, value: string][] {
  if (port === null) return []
  const values = {
    http_proxy: `http://127.0.0.1:${port}`,
    https_proxy: `http://127.0.0.1:${port}`,
    no_proxy: 'localhost,127.0.0.1,::1',
  }
  return Object.entries(values).flatMap(([name, value]) => [
    [name, value],
    [name.toUpperCase(), value],
  ])
}

export function textFile(name: string, text: string): FileToPack {
  return { name, body: Buffer.from(text), mode: 0o600 }
}

/** The scripts beside the runner, each with the source files it is concatenated from. */
const SCRIPTS = {
  'snapshot.sh': ['snapshot.sh'],
  'command.sh': ['command.sh'],
  'tools.sh': ['tools.sh'],
  'capture.sh': ['git.sh', 'capture.sh'],
  'tree.sh': ['git.sh', 'tree.sh'],
  'reset.sh': ['reset.sh'],
} as const

/** Returns the scripts' text by file name. */
export async function runnerScripts(): Promise<Record<string, string>> {
  const texts = Object.entries(SCRIPTS).map(async ([name, parts]) => [name, await joined(parts)] as const)
  return Object.fromEntries(await Promise.all(texts))
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
  // Comments are removed because every tool call reads `tools.sh`.
  return text.replaceAll(/^ *#.*\n/gm, '')
}
