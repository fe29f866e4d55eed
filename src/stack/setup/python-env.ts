import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { exists, makeDirectory } from '../../platform/files.ts'
import { packageFile } from '../paths.ts'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import { LONGEST_STEP_MS, type StepContext } from '../steps.ts'
import { sha256OfParts } from '../../platform/hash.ts'

/** Every lock file pins the hashes of this version's wheels, and all figures were measured with it. */
const PREFERRED_VERSION = '3.11'

export interface PythonInterpreter {
  path: string
  /** Such as `3.11`. */
  version: string
  hasVenv: boolean
}

/** An interpreter of the preferred version with venv, else the first newer one with venv, else the first one without, else null. */
export async function findPython({
  candidates = [
    process.env['LONGHAUL_BASE_PYTHON'] ?? '',
    'python3.11',
    'python3',
    '/usr/bin/python3',
    'python3.12',
    'python3.13',
  ],
}: {
  /** Names on PATH, or paths; empty ones are left out. */
  candidates?: readonly string[]
} = {}): Promise<PythonInterpreter | null> {
  let second: PythonInterpreter | null = null
  for (const name of candidates.filter((candidate) => candidate !== '')) {
    const found = await inspectPython(name)
    if (found === null || isOlderThan311(found.version)) continue
    if (found.version === PREFERRED_VERSION && found.hasVenv) return found
    if (second === null || (found.hasVenv && !second.hasVenv)) second = found
  }
  return second
}

/** Packages of a virtual environment, pinned by hash. */
export interface PythonPackages {
  lockFile: string
  /** `what` and `takes` are logged during the installation. */
  what: string
  takes: string
  /** Versions of Python whose wheels the lock pins. @default the preferred one */
  versions?: readonly string[]
  /** @default none: the lock must then contain all dependencies */
  pipOptions?: string[]
}

const TRAINER_PACKAGES: PythonPackages = {
  lockFile: packageFile('trainer/requirements.lock'),
  what: "the trainer's Python packages",
  takes: 'about 3 minutes',
  versions: ['3.11', '3.12', '3.13'],
}

export interface EnsurePythonEnvInput {
  cacheDir: string
  context: StepContext
  /** @default the trainer's */
  packages?: PythonPackages
}

/** Creates the virtual environment that all stacks of this user share, named by the hash of its lock.
 *  @returns path of its interpreter
 *  @throws LonghaulError `Stack.SetupFailed` */
export async function ensurePythonEnv(input: EnsurePythonEnvInput): Promise<{ value: string; did: string }> {
  const { cacheDir, context, packages = TRAINER_PACKAGES } = input
  const interpreter = requireUsable(await findPython())
  const { folder, python, ready } = await environmentOf({ cacheDir, packages, interpreter })
  const isWhole = async (): Promise<boolean> => (await exists(ready)) && (await exists(python))
  if (await isWhole()) return { value: python, did: 'cached' }

  await makeDirectory(join(cacheDir, 'python'))
  const onWait = (): void => context.saw?.(`another process installs ${packages.what}`)
  const lock = { path: `${folder}.lock`, timeoutMs: LONGEST_STEP_MS, signal: context.signal, onWait }
  return withDirectoryLock(lock, async () => {
    if (await isWhole()) return { value: python, did: 'cached' }
    // Scripts in a virtual environment contain its absolute path, so it is built in place; READY marks it complete.
    await rm(folder, { recursive: true, force: true })
    await buildEnv({ interpreter, folder, context, packages })
    await writeFile(ready, `${new Date().toISOString()}\n`)
    return { value: python, did: `installed with Python ${interpreter.version}` }
  })
}

/** Interpreter of the trainer's environment in this cache; null if `ensurePythonEnv` has not created it. */
export async function preparedPython(cacheDir: string): Promise<string | null> {
  const interpreter = await findPython()
  if (interpreter === null) return null
  const { python, ready } = await environmentOf({ cacheDir, packages: TRAINER_PACKAGES, interpreter })
  return (await exists(ready)) && (await exists(python)) ? python : null
}

async function environmentOf(input: {
  cacheDir: string
  packages: PythonPackages
  interpreter: PythonInterpreter
}): Promise<{ folder: string; python: string; ready: string }> {
  const { cacheDir, packages, interpreter } = input
  const key = sha256OfParts(
    await readFile(packages.lockFile),
    interpreter.version,
    process.platform,
    process.arch,
  ).slice(0, 12)
  const folder = join(cacheDir, 'python', `${key}-${interpreter.version}`)
  return { folder, python: join(folder, 'bin', 'python'), ready: join(folder, 'READY') }
}

async function buildEnv(input: {
  interpreter: PythonInterpreter
  folder: string
  context: StepContext
  packages: PythonPackages
}): Promise<void> {
  const { interpreter, folder, context, packages } = input
  context.log(`installing ${packages.what} (${packages.takes}, once; Python ${interpreter.version})`)
  await requireCommand({
    what: 'Making the virtual environment',
    command: interpreter.path,
    args: ['-m', 'venv', folder],
    timeoutMs: 120_000,
    signal: context.signal,
  })
  await requireCommand({
    what: `Installing the pinned Python packages${lockNote(interpreter, packages)}`,
    command: join(folder, 'bin', 'python'),
    args: [
      '-m',
      'pip',
      'install',
      '--require-hashes',
      '--no-input',
      '--progress-bar',
      'off',
      ...(packages.pipOptions ?? []),
      '-r',
      packages.lockFile,
    ],
    env: { ...process.env, PIP_DISABLE_PIP_VERSION_CHECK: '1' },
    timeoutMs: LONGEST_STEP_MS,
    // 20 minutes: pip prints nothing while it downloads one package, of up to gigabytes.
    silenceMs: 1_200_000,
    signal: context.signal,
    onLine: context.saw,
  })
}

async function inspectPython(name: string): Promise<PythonInterpreter | null> {
  const script = [
    'import sys, importlib.util as u',
    'print("%d.%d" % sys.version_info[:2])',
    'print(bool(u.find_spec("venv") and u.find_spec("ensurepip")))',
    'print(sys.executable)',
  ].join('\n')
  const { exitCode, stdout } = await runCommand({ command: name, args: ['-c', script], timeoutMs: 20_000 })
  const [version, hasVenv, path] = stdout.split('\n')
  if (exitCode !== 0 || version === undefined || path === undefined || path === '') return null
  return { path, version, hasVenv: hasVenv === 'True' }
}

function requireUsable(interpreter: PythonInterpreter | null): PythonInterpreter {
  if (interpreter?.hasVenv === true) return interpreter
  const found = interpreter === null ? 'none was found' : `${interpreter.path} lacks its venv module`
  throw new LonghaulError({
    code: 'Stack.SetupFailed',
    message: [
      `Expected Python 3.11, 3.12 or 3.13 with venv; ${found}.`,
      'Debian and Ubuntu: apt-get install python3 python3-venv. Elsewhere: install one of them and put it on PATH, or name it with LONGHAUL_BASE_PYTHON.',
    ].join('\n'),
  })
}

function lockNote({ version }: PythonInterpreter, { versions = [PREFERRED_VERSION] }: PythonPackages): string {
  return versions.includes(version) ? '' : ` (the lock was made for Python ${versions.join(', ')}, this is ${version})`
}

function isOlderThan311(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < 3 || (major === 3 && minor < 11)
}
