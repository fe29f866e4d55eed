import type { Task } from '../../contracts/tasks.types.ts'
import { END_MARKER, START_MARKER } from '../log-slice.ts'
import { readPatchedFiles } from '../test-patch.ts'
import type { PatchedFile } from '../test-patch.ts'

/** Where the patch lies in the grading container; the apply commands name it. */
export const PATCH_PATH = '/tmp/patch.diff'

/** Tried in order, without a clean-up between: what a failed attempt leaves behind is part of the official result. */
const APPLY_COMMANDS: string[][] = [
  ['git', 'apply', '--verbose', PATCH_PATH],
  ['git', 'apply', '--verbose', '--reject', PATCH_PATH],
  ['patch', '--batch', '--fuzz=5', '-p1', '-i', PATCH_PATH],
]

const HEREDOC = 'EOF_114329324912'
const LOCALE_PREFIX = 'LANG=C.UTF-8 LC_ALL=C.UTF-8 '
const NOT_TESTS = ['.json', '.png', 'csv', '.txt', '.md', '.jpg', '.jpeg', '.pkl', '.yml', '.yaml', '.toml']

export type EvalScriptInput = Pick<Task, 'repo' | 'baseCommit' | 'testPatch' | 'installConfig'>

/** The Bash script that lays in the tests, runs them between the markers and puts the test files back. */
export function evalScript({ repo, baseCommit, testPatch, installConfig }: EvalScriptInput): string {
  const files = readPatchedFiles(testPatch)
  const reset = `git checkout ${baseCommit} ${modifiedFiles(files).join(' ')}`
  const activate = ['source /opt/miniconda3/bin/activate', 'conda activate testbed']
  const install = installConfig.install === null ? [] : [`${LOCALE_PREFIX}${installConfig.install}`]
  const testCommand = [`${LOCALE_PREFIX}${installConfig.testCmd}`, ...testDirectives(repo, files)].join(' ')
  const commands = [
    '#!/bin/bash',
    'set -uxo pipefail',
    ...activate,
    'cd /testbed',
    'git config --global --add safe.directory /testbed',
    'cd /testbed',
    'git status',
    'git show',
    `git -c core.fileMode=false diff ${baseCommit}`,
    ...activate,
    ...install,
    reset,
    `git apply -v - <<'${HEREDOC}'\n${testPatch}\n${HEREDOC}`,
    `: '${START_MARKER}'`,
    testCommand,
    `: '${END_MARKER}'`,
    reset,
  ]
  return `${commands.join('\n')}\n`
}

/** Only files that exist at the base commit can be checked out. None: a bare checkout of the commit, as upstream does. */
function modifiedFiles(files: PatchedFile[]): string[] {
  return files.flatMap(({ source }) => (source.startsWith('a/') ? [source.slice(2)] : []))
}

/** What is handed to the test command: every file that the patch leaves behind and that could be a test. */
export function testDirectives(repo: string, files: PatchedFile[]): string[] {
  const paths = files.flatMap(({ source, target }) => {
    if (target === '/dev/null') return []
    const name = target === '' ? source : target
    return [/^[ab]\//.test(name) ? name.slice(2) : name]
  })
  const tests = paths.filter((path) => !NOT_TESTS.some((ending) => path.endsWith(ending)))
  return repo === 'django/django' ? tests.map(djangoLabel) : tests
}

function djangoLabel(path: string): string {
  const withoutEnding = path.endsWith('.py') ? path.slice(0, -'.py'.length) : path
  const withoutFolder = withoutEnding.startsWith('tests/') ? withoutEnding.slice('tests/'.length) : withoutEnding
  return withoutFolder.replaceAll('/', '.')
}

/**
 * Profile `fork-4.0.3`: evaluation script and apply order of SWE-rebench's fork of the SWE-bench harness (`39316f7`),
 * imitated byte for byte, faults included. A verdict means something only together with the harness it imitates.
 * `verdict.ts` says what the log of the script means.
 */
export const forkProfile = { name: 'fork-4.0.3', applyCommands: APPLY_COMMANDS, evalScript } as const
