import { readFile, stat } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { packageFile } from '../../stack/paths.ts'

export const CI_SYSTEMS = ['github', 'gitlab'] as const
export type CiSystem = (typeof CI_SYSTEMS)[number]

const CI_FILES = {
  github: { example: 'infra/ci/github-workflow.yml', path: '.github/workflows/longhaul.yml' },
  gitlab: { example: 'infra/ci/gitlab-ci.yml', path: '.gitlab-ci.yml' },
} as const

/** A file for `longhaul schedule apply`, beside the recipe that it names. */
export function scheduleExample(recipeName: string): string {
  return `# Runs that Temporal starts at fixed times. This file lists all of them; the command prints what it changes:
#   longhaul schedule apply schedules.yaml --dry-run
schedules:
  ${recipeName}-nightly:
    recipe: ./${recipeName}.yaml # a file beside this one, or the name of a recipe that the workers know
    action: evaluate # or train
    cron: '0 2 * * *'
    timezone: UTC # an IANA name, such as Europe/Berlin
    overlap: bufferOne # a night that is due while the last one is open waits for it
    catchupWindow: 6h # starts that the server missed by more than this are skipped
    executionTimeout: 20h # ends a night that hangs, before the next one is due
# Alarms about failures, regressions and blocked runs. The variables are those of the control workers:
# alarms:
#   urlVariable: LONGHAUL_ALARM_URL
#   secretVariable: LONGHAUL_ALARM_SECRET
#   template: json # or slack, discord
`
}

/**
 * The example of infra/ci, adapted to a repository that has Longhaul among its packages.
 * @param input.recipe path of the recipe's file
 * @returns the path at which the CI system expects the file, and its text
 * @throws LonghaulError `Config.Invalid` for a path that such a file might not take literally
 */
export async function ciFile({
  system,
  recipe,
}: {
  system: CiSystem
  recipe: string
}): Promise<{ path: string; text: string; root: string }> {
  const root = (await repositoryAbove(dirname(resolve(recipe)))) ?? dirname(resolve(recipe))
  const place = `./${relative(root, resolve(recipe))}`
  if (!/^[\w./-]+$/.test(place)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected beside --ci a path of letters, digits, dots and dashes below the repository, got ${JSON.stringify(place)}`,
    })
  }
  const { example, path } = CI_FILES[system]
  const text = await readFile(packageFile(example), 'utf8')
  return { path: join(root, path), root, text: system === 'github' ? forGithub(text, place) : forGitlab(text, place) }
}

const PACKAGE = 'node_modules/longhaul'
const HEAD = [
  '# Made by longhaul init --ci from the example of infra/ci: a gate on changes, and a nightly evaluation that outlives a job, in two. It runs',
  '# Longhaul from the packages of this repository (package.json and its lock) and needs of Temporal the address and the key alone.',
].join('\n')

function forGithub(text: string, recipe: string): string {
  return withHead(text)
    .replaceAll('uses: ./infra/ci', `uses: ./${PACKAGE}/infra/ci`)
    .replaceAll(
      '          node-version: 24\n',
      '          node-version: 24\n      - run: npm ci --no-audit --no-fund\n',
    )
    .replaceAll(
      '${{ vars.LONGHAUL_COMMAND }}',
      () => `\${{ vars.LONGHAUL_COMMAND || 'node ${PACKAGE}/bin/longhaul.mjs' }}`,
    )
    .replaceAll("'nightly'", `'${recipe}'`)
    .replaceAll('default: nightly', `default: ${recipe}`)
}

function forGitlab(text: string, recipe: string): string {
  return withHead(text)
    .replace('    INPUT_OUTPUT: longhaul-out\n', `    INPUT_OUTPUT: longhaul-out\n    INPUT_RECIPE: ${recipe}\n`)
    .replace(/^ {4}- test -n .*npm ci .*$/m, '    - npm ci --no-audit --no-fund')
    .replace('bash infra/ci/evaluate.sh', `bash ${PACKAGE}/infra/ci/evaluate.sh`)
}

/** Replaces the comment at the top, which describes the example itself. */
function withHead(text: string): string {
  return `${HEAD}\n${text.replace(/^(?:#.*\n)+/, '')}`
}

/** The closest directory that contains `.git`; null if there is none. */
async function repositoryAbove(directory: string): Promise<string | null> {
  const isHere = await stat(join(directory, '.git')).then(
    () => true,
    () => false,
  )
  if (isHere) return directory
  const parent = dirname(directory)
  return parent === directory ? null : repositoryAbove(parent)
}
