/** Converts a harness's description of an environment into a script that makes it with pip in a virtual environment. */
import { parse } from 'yaml'
import type { TaskEnvironment } from '../../contracts/task-images.types.ts'
import { shellQuote } from '../../platform/run-command.ts'
import { buildFailure } from './build-failure.ts'
import { NOTE } from './layer.ts'
import type { Repository } from './repository.ts'

/** The paths that the harness and its images use. */
export const CONDA = '/opt/miniconda3'
export const ENVIRONMENT = `${CONDA}/envs/testbed`
export const ACTIVATE = `source ${CONDA}/bin/activate\nconda activate testbed`

const HEREDOC = 'EOF_59812759871'

interface EnvironmentScriptInput {
  environment: TaskEnvironment
  repository: Repository
  repo: string
}

/** @throws LonghaulError `Image.BuildFailed` if the repository lacks the file with the packages */
export async function environmentScript(input: EnvironmentScriptInput): Promise<string> {
  const { pipPackages, pins } = input.environment
  const chosen = [...pipPackages, ...pins.map((pin) => pin.package)]
  return [
    'set -euo pipefail',
    ACTIVATE,
    'set -x',
    'cd /root',
    ...(await listedPackages(input)),
    ...(chosen.length === 0 ? [] : [`python -m pip install ${chosen.map(pipWord).join(' ')}`]),
    ...(chosen.some((entry) => /^['"]?tox-current-env\b/i.test(entry.trim())) ? LINKED_INTERPRETER : []),
    ...pins.map(({ package: name, reason }) => `echo ${shellQuote(`${NOTE}${name}: ${reason}`)}`),
  ].join('\n')
}

/**
 * tox-current-env starts the environment's interpreter through a link in `.tox`. A conda interpreter finds its packages in spite of
 * that, but one of a virtual environment behaves as the Python that it was made from. The packages are therefore made visible to that
 * Python too.
 */
const LINKED_INTERPRETER = [
  'packages="$(python -c \'import site; print(site.getsitepackages()[0])\')"',
  'below="$("$(python -c \'import os, sys; print(os.path.realpath(sys.executable))\')" -c \'import site; print(site.getsitepackages()[0])\')"',
  'mkdir -p "$below"',
  'echo "import site; site.addsitedir(\'$packages\')" > "$below/testbed.pth"',
]

async function listedPackages(input: EnvironmentScriptInput): Promise<string[]> {
  const { packages } = input.environment
  if (packages === null) return []
  if (packages === 'requirements.txt') {
    const text = await requirements(input)
    const file = '/root/requirements.txt'
    return [`cat <<'${HEREDOC}' > ${file}\n${text}\n${HEREDOC}`, `python -m pip install -r ${file}`, `rm ${file}`]
  }
  if (packages === 'environment.yml') return installOneByOne(await condaFile(input))
  return installOneByOne(words(packages).flatMap(condaPackage))
}

/** Unlike in the harness's own script, an entry with a comparison needs no quotes of its own. */
function pipWord(entry: string): string {
  const plain = entry.trim().replace(/^(['"])(.*)\1$/, '$2')
  return /\s/.test(plain) ? plain : shellQuote(plain)
}

const EXCLUDED = ['-e .', '#', '.[test']

/** Produces exactly the bytes that swebench 4.1.0 makes of the file, with one level of included files expanded first. */
async function requirements({ environment, repository, repo }: EnvironmentScriptInput): Promise<string> {
  const { requirementFiles, setupCommit } = environment
  const { path, text } = await firstFile(repository, setupCommit, requirementFiles, `requirements of ${repo}`)
  const directory = path.includes('/') ? `${path.slice(0, path.lastIndexOf('/'))}/` : ''
  const isKept = (line: string): boolean => !EXCLUDED.some((start) => line.trim().startsWith(start))
  const own: string[] = []
  const named: string[] = []
  for (const line of text.split('\n')) {
    if (line.trim().startsWith('-r')) {
      const file = await repository.read(setupCommit, `${directory}${line.slice('-r'.length).trim()}`)
      if (file !== null) named.push(...file.split('\n').filter(isKept))
    } else if (isKept(line)) own.push(line)
  }
  return [...named, own.join('\n')].join('\n').replaceAll(/^types-pkg_resources(?:[<>=!~]=?.*|$)/gm, 'types-setuptools')
}

async function firstFile(repository: Repository, commit: string, paths: readonly string[], what: string) {
  for (const path of paths) {
    const text = await repository.read(commit, path)
    if (text !== null) return { path, text }
  }
  throw buildFailure({
    stage: 'environment',
    message: `Expected a file with the ${what} at commit ${commit}: ${paths.join(', ') || 'no path is known'}. Name it in reqs_path or env_yml_path of install_config`,
  })
}

/** Returns the packages of conda's own file, then those that it leaves to pip. */
async function condaFile({ environment, repository, repo }: EnvironmentScriptInput): Promise<string[]> {
  const { environmentFiles, setupCommit } = environment
  const { path, text } = await firstFile(repository, setupCommit, environmentFiles, `environment of ${repo}`)
  let dependencies: unknown
  try {
    dependencies = (parse(text) as { dependencies?: unknown } | null)?.dependencies
  } catch {
    dependencies = undefined
  }
  if (!Array.isArray(dependencies)) {
    throw buildFailure({ stage: 'environment', message: `Expected a list of dependencies in ${path} of ${repo}` })
  }
  return dependencies.flatMap((entry: unknown) => {
    if (typeof entry === 'string') return condaPackage(entry)
    const pip = (entry as { pip?: unknown } | null)?.pip
    return Array.isArray(pip)
      ? pip.filter((word): word is string => typeof word === 'string' && !word.startsWith('-'))
      : []
  })
}

/** Names that differ between conda's channels and the Python registry. */
const PIP_NAMES: Record<string, string> = {
  'dask-core': 'dask',
  iris: 'scitools-iris',
  'matplotlib-base': 'matplotlib',
  pyqt: 'PyQt5',
  pytables: 'tables',
  'seaborn-base': 'seaborn',
}
const NOT_OF_PIP = new Set(['python', 'pip', 'conda'])

/** conda's `name=1.2` is pip's `name==1.2.*`. */
export function condaPackage(entry: string): string[] {
  const plain = entry
    .trim()
    .replace(/^[\w-]+::/, '')
    .replaceAll(' ', '')
  const [, name = '', rest = ''] = /^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?(.*)$/.exec(plain) ?? []
  if (name === '' || NOT_OF_PIP.has(name.toLowerCase())) return []
  const [, exact] = /^=([^=]+)/.exec(rest) ?? []
  const version = exact === undefined ? rest : `==${exact.replace(/\.?\*$/, '')}.*`
  return [`${PIP_NAMES[name.toLowerCase()] ?? name}${version}`]
}

/** Splits words like a shell, without its other expansions. */
function words(text: string): string[] {
  return [...text.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, one, two, three]) => one ?? two ?? three ?? '')
}

/** Installs the packages together if pip can, otherwise one by one. Packages that the registry lacks are skipped and recorded. */
function installOneByOne(packages: string[]): string[] {
  if (packages.length === 0) return []
  const all = packages.map(shellQuote).join(' ')
  return [
    `python -m pip install ${all} || {`,
    `  for package in ${all}; do`,
    `    python -m pip install "$package" || echo "${NOTE}pip cannot install what conda has, left out: $package"`,
    '  done',
    '}',
  ]
}
