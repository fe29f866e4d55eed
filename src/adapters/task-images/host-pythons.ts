/** Finds the Pythons of a host: in configured directories, `uv python`, pyenv, conda, and Debian's own in the base image. */
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import type { HostPython } from '../../contracts/task-images.types.ts'
import { runCommand } from '../../platform/run-command.ts'

interface Place {
  kind: HostPython['kind']
  prefix: string
}

function namedDirectories(env: NodeJS.ProcessEnv): string[] {
  return (env['LONGHAUL_PYTHONS'] ?? '').split(delimiter).filter((path) => path !== '')
}

/** A mistyped directory would be passed over, and the error would ask for a Python that is installed. @throws LonghaulError `Config.Invalid` */
export function requireNamedDirectories(env: NodeJS.ProcessEnv = process.env): void {
  const wrong = namedDirectories(env).find((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true)
  if (wrong === undefined) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected LONGHAUL_PYTHONS to name directories with Pythons, but ${wrong} is not a directory`,
  })
}

/** Prefixes that may contain a Python, explicitly configured ones first. */
function candidates(env: NodeJS.ProcessEnv): Place[] {
  const home = env['HOME'] ?? homedir()
  const named = namedDirectories(env)
  const uv = env['UV_PYTHON_INSTALL_DIR'] ?? join(env['XDG_DATA_HOME'] ?? join(home, '.local/share'), 'uv/python')
  const pyenv = join(env['PYENV_ROOT'] ?? join(home, '.pyenv'), 'versions')
  const conda = [
    env['CONDA_PREFIX'] ?? '',
    ...['miniconda3', 'anaconda3', 'miniforge3'].map((name) => join(home, name)),
  ]
  const condas = [...conda, '/opt/conda', '/opt/miniconda3'].filter((path) => existsSync(join(path, 'conda-meta')))
  return [
    ...named.flatMap((path) => [path, ...children(path)]).map((prefix): Place => ({ kind: 'named', prefix })),
    ...children(uv).map((prefix): Place => ({ kind: 'uv', prefix })),
    ...children(pyenv).map((prefix): Place => ({ kind: 'pyenv', prefix })),
    ...condas
      .flatMap((path) => [path, ...children(join(path, 'envs'))])
      .map((prefix): Place => ({ kind: 'conda', prefix })),
  ]
}

function children(directory: string): string[] {
  try {
    return readdirSync(directory)
      .toSorted()
      .map((name) => join(directory, name))
  } catch {
    return []
  }
}

/** Lists those that run here and have their modules, each prefix once. */
export async function listHostPythons(env: NodeJS.ProcessEnv = process.env): Promise<HostPython[]> {
  const seen = new Set<string>()
  const places = candidates(env).flatMap(({ kind, prefix }) => {
    if (!existsSync(join(prefix, 'bin/python')) && !existsSync(join(prefix, 'bin/python3'))) return []
    const real = realpathSync(prefix)
    if (seen.has(real)) return []
    seen.add(real)
    return [{ kind, prefix: real }]
  })
  const found = await Promise.all(places.map(inspect))
  return found.filter((python) => python !== null)
}

/** A virtual environment is refused, because its files are elsewhere. */
const SCRIPT = [
  'import sys',
  'v = sys.version_info',
  'print("%d.%d.%d" % v[:3])',
  'print(getattr(sys, "base_prefix", sys.prefix) == sys.prefix and v[0] >= 3)',
  'print(sys.version.replace(chr(10), " "))',
].join('\n')

async function inspect({ kind, prefix }: Place): Promise<HostPython | null> {
  const program = ['bin/python3', 'bin/python'].map((name) => join(prefix, name)).find((path) => existsSync(path))
  const { exitCode, stdout } = await runCommand({
    command: program ?? '',
    args: ['-I', '-c', SCRIPT],
    env: { PATH: process.env['PATH'] },
    timeoutMs: 30_000,
  })
  const [version = '', isOwn, build = ''] = stdout.split('\n')
  return exitCode === 0 && isOwn === 'True' ? { kind, version, prefix, build } : null
}

/** Returns the newest patch release of the version, from the first kind that has one; null if none has. */
export function choosePython(pythons: readonly HostPython[], version: string): HostPython | null {
  const fitting = pythons.filter((python) => python.version.startsWith(`${version}.`))
  const [first] = fitting
  if (first === undefined) return null
  const [newest] = fitting
    .filter(({ kind }) => kind === first.kind)
    .toSorted((one, other) => patchOf(other.version) - patchOf(one.version))
  return newest ?? null
}

function patchOf(version: string): number {
  return Number(version.split('.')[2] ?? 0)
}
