import { LonghaulError } from '../../contracts/errors.ts'
import { readPatchedFiles } from '../test-patch.ts'
import { planOf4 } from './fork-4.0.3.ts'
import type { RunProfile, RunTask } from './run-profile.ts'
import { SWEBENCH_4_1_COMMANDS, type RepositoryCommands } from './swebench-4.1-commands.ts'
import { testbedScript, testWords } from './testbed.ts'

/** The harness's commands for a repository at a version; null if it does not know them. */
export function commandsOf(repo: string, version: string | null): RepositoryCommands | null {
  const groups = SWEBENCH_4_1_COMMANDS.get(repo) ?? []
  return groups.find(({ versions }) => version !== null && versions.includes(version)) ?? null
}

type EvalScriptInput = Pick<RunTask, 'taskId' | 'repo' | 'baseCommit' | 'testPatch' | 'harness'>

/** @throws LonghaulError `Task.Invalid` if the harness has no commands for the repository and version */
export function evalScript({ taskId, repo, baseCommit, testPatch, harness }: EvalScriptInput): string {
  const version = harness?.version ?? null
  const commands = commandsOf(repo, version)
  if (commands === null) {
    throw new LonghaulError({
      code: 'Task.Invalid',
      message: 'Expected a repository and version that swebench 4.1.0 has test commands for',
      details: { row: taskId, column: 'version', repo, version },
    })
  }
  return testbedScript({
    baseCommit,
    testPatch,
    files: readPatchedFiles(testPatch),
    evalCommands: commands.evalCommands,
    install: commands.install,
    testCommand: commands.testCommand,
    directives: testDirectives(repo, testPatch),
  })
}

/** Reads every line that looks like a file header anywhere in the text, including deleted files; misses names that Git quotes. */
export function testDirectives(repo: string, testPatch: string): string[] {
  return testWords(repo, testPatch.split('\n').flatMap(pathOfHeader))
}

const HEADER = 'diff --git a/'
const NEW_SIDE = ' b/'

/** Imitates `diff --git a/.* b/(.*)`, which takes quadratic time on a line that repeats its beginning. */
function pathOfHeader(line: string): string[] {
  const start = line.indexOf(HEADER)
  const end = line.lastIndexOf(NEW_SIDE)
  return start === -1 || end < start + HEADER.length ? [] : [line.slice(end + NEW_SIDE.length)]
}

/** Profile `swebench-4.1`: test commands by repository and version; applies patches as the fork does. */
export const swebench41Profile: RunProfile = {
  name: 'swebench-4.1',
  upstream: 'PyPI swebench 4.1.0',
  revision: 2,
  plan: (task, { hasPatch }) => planOf4(evalScript(task), hasPatch),
}
