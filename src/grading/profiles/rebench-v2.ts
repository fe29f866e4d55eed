import type { RunProfile } from './run-profile.ts'

const PATCH_PATH = '/patches/patch.diff'
const TEST_PATCH_PATH = '/patches/test_patch.diff'
const APPLY = 'git apply -v --3way --recount --ignore-space-change --whitespace=nowarn'
const RESET = 'git reset --hard HEAD'

/** After the patch: the first command that fails ends the run, so a test patch in conflict runs no test. */
export function evalScript(testCommands: string): string {
  return ['set -e', `${APPLY} ${TEST_PATCH_PATH}`, testCommands].join('\n')
}

/**
 * Profile `rebench-v2`: one script of SWE-rebench-V2, which resets, patches and tests under `set -e`. It is cut in two after
 * the patch, so that a patch that does not apply is told from tests that fail; both halves print into the same two streams.
 */
export const rebenchV2Profile: RunProfile = {
  name: 'rebench-v2',
  upstream: 'SWE-rebench/SWE-rebench-V2 c71902a8cf8d2b725f63d51f199f4d3e56f68d2d',
  revision: 1,
  plan({ testPatch, installConfig }, { hasPatch }) {
    // Upstream never runs without a patch; what the gate wants to know then is what it does with none.
    const prepare = ['set -e', RESET, ...(hasPatch ? [`${APPLY} ${PATCH_PATH}`] : [])].join('\n')
    return {
      patchPath: PATCH_PATH,
      applyCommands: [['/bin/bash', '-c', prepare]],
      resetCommand: null,
      lastCheck: null,
      evalScript: evalScript(installConfig.testCmd),
      output: 'apart',
      files: { [TEST_PATCH_PATH]: testPatch },
      environment: { _JAVA_OPTIONS: '-Djava.net.preferIPv6Addresses=false' },
    }
  },
}
