import { END_MARKER, START_MARKER } from '../log-slice.ts'
import type { PatchedFile } from '../test-patch.ts'

/** Root of the repository in every image of the SWE-bench families. */
export const TESTBED = '/testbed'

/** The path of the patch in the SWE-bench harnesses. */
export const PATCH_PATH = '/tmp/patch.diff'

const HEREDOC = 'EOF_114329324912'
const NOT_TESTS = ['.json', '.png', 'csv', '.txt', '.md', '.jpg', '.jpeg', '.pkl', '.yml', '.yaml', '.toml']

/** Tried in order, without a clean-up in between: the remains of a failed attempt are part of the official result. */
export const APPLY_COMMANDS_4: string[][] = [
  ['git', 'apply', '--verbose', PATCH_PATH],
  ['git', 'apply', '--verbose', '--reject', PATCH_PATH],
  ['patch', '--batch', '--fuzz=5', '-p1', '-i', PATCH_PATH],
]

export interface TestbedScriptInput {
  baseCommit: string
  testPatch: string
  /** Files of the test patch. */
  files: readonly PatchedFile[]
  /** Run in the repository before everything else. */
  evalCommands?: readonly string[]
  install: string | null
  testCommand: string
  /** Words that are appended to the test command, unquoted. */
  directives: readonly string[]
}

/**
 * The script of swebench 4 and its fork for Python: applies the test patch, runs the tests between the markers, restores the files.
 */
export function testbedScript(input: TestbedScriptInput): string {
  const { baseCommit, testPatch, files, evalCommands = [], install, testCommand, directives } = input
  const reset = `git checkout ${baseCommit} ${modifiedFiles(files).join(' ')}`
  const activate = ['source /opt/miniconda3/bin/activate', 'conda activate testbed']
  const commands = [
    '#!/bin/bash',
    'set -uxo pipefail',
    ...activate,
    'cd /testbed',
    ...evalCommands,
    'git config --global --add safe.directory /testbed',
    'cd /testbed',
    'git status',
    'git show',
    `git -c core.fileMode=false diff ${baseCommit}`,
    ...activate,
    ...(install === null ? [] : [install]),
    reset,
    `git apply -v - <<'${HEREDOC}'\n${testPatch}\n${HEREDOC}`,
    `: '${START_MARKER}'`,
    [testCommand, ...directives].join(' '),
    `: '${END_MARKER}'`,
    reset,
  ]
  return `${commands.join('\n')}\n`
}

/** Only files that exist at the base commit can be checked out. Without any, upstream checks out the commit itself. */
function modifiedFiles(files: readonly PatchedFile[]): string[] {
  return files.flatMap(({ source }) => (source.startsWith('a/') ? [source.slice(2)] : []))
}

/** Paths as arguments of the test command, without data files. */
export function testWords(repo: string, paths: readonly string[]): string[] {
  const tests = paths.filter((path) => !NOT_TESTS.some((ending) => path.endsWith(ending)))
  return repo === 'django/django' ? tests.map(djangoLabel) : tests
}

function djangoLabel(path: string): string {
  const withoutEnding = path.endsWith('.py') ? path.slice(0, -'.py'.length) : path
  const withoutFolder = withoutEnding.startsWith('tests/') ? withoutEnding.slice('tests/'.length) : withoutEnding
  return withoutFolder.replaceAll('/', '.')
}
