import type { RunProfile } from './run-profile.ts'

const PATCH_PATH = '/patches/patch.diff'
const TEST_PATCH_PATH = '/patches/test_patch.diff'
const APPLY = 'git apply -v --3way --recount --ignore-space-change --whitespace=nowarn'
const RESET = 'git reset --hard HEAD'

/** Runs after the patch. The first failing command ends the script, so a test patch that conflicts runs no tests. */
export function evalScript(testCommands: string): string {
  return ['set -e', `${APPLY} ${TEST_PATCH_PATH}`, testCommands].join('\n')
}

/**
 * Profile `rebench-v2`: one script of SWE-rebench-V2, which resets, patches and tests under `set -e`. It is split after the patch, to
 * distinguish a patch that does not apply from tests that fail; both halves write to the same two streams.
 */
export const rebenchV2Profile: RunProfile = {
  name: 'rebench-v2',
  upstream: 'SWE-rebench/SWE-rebench-V2 c71902a8cf8d2b725f63d51f199f4d3e56f68d2d',
  revision: 1,
  plan({ testPatch, installConfig }, { hasPatch }) {
    // Upstream never runs without a patch; the gate's empty check does.
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
