import { readPatchedFiles } from '../test-patch.ts'
import type { PatchedFile } from '../test-patch.ts'
import type { HarnessScript, RunProfile, RunTask } from './run-profile.ts'
import { APPLY_COMMANDS_4, PATCH_PATH, testbedScript, testWords } from './testbed.ts'

const LOCALE_PREFIX = 'LANG=C.UTF-8 LC_ALL=C.UTF-8 '

type EvalScriptInput = Pick<RunTask, 'repo' | 'baseCommit' | 'testPatch' | 'installConfig'>

/** The Bash script that applies the test patch, runs the tests between the markers and restores the test files. */
export function evalScript({ repo, baseCommit, testPatch, installConfig }: EvalScriptInput): string {
  const files = readPatchedFiles(testPatch)
  return testbedScript({
    baseCommit,
    testPatch,
    files,
    install: installConfig.install === null ? null : `${LOCALE_PREFIX}${installConfig.install}`,
    testCommand: `${LOCALE_PREFIX}${installConfig.testCmd}`,
    directives: testDirectives(repo, files),
  })
}

/** The arguments of the test command: every file that the patch leaves behind and that could be a test. */
export function testDirectives(repo: string, files: PatchedFile[]): string[] {
  const paths = files.flatMap(({ source, target }) => {
    if (target === '/dev/null') return []
    const name = target === '' ? source : target
    // Git's quotes stay around a name that has them.
    return [name.replace(/^("?)[ab]\//, '$1')]
  })
  return testWords(repo, paths)
}

/**
 * Profile `fork-4.0.3`: evaluation script and apply order of SWE-rebench's fork of the SWE-bench harness (`39316f7`), imitated byte
 * for byte, faults included. A verdict is meaningful only together with the harness that it imitates. `verdict.ts` interprets the log
 * of the script.
 */
export const forkProfile: RunProfile = {
  name: 'fork-4.0.3',
  upstream: 'SWE-rebench/SWE-bench-fork 39316f79cd51c144fb0c62c157ef4739e7653577',
  revision: 2,
  plan: (task, { hasPatch }) => planOf4(evalScript(task), hasPatch),
}

/** How swebench 4 and its fork run any script. */
export function planOf4(script: string, hasPatch: boolean): HarnessScript {
  return {
    patchPath: PATCH_PATH,
    applyCommands: hasPatch ? APPLY_COMMANDS_4 : [],
    resetCommand: null,
    lastCheck: null,
    evalScript: script,
    output: 'merged',
    files: {},
    environment: {},
  }
}
