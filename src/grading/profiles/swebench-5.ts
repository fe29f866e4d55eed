import { LonghaulError } from '../../contracts/errors.ts'
import { END_MARKER, START_MARKER } from '../log-slice.ts'
import { pythonStrip } from '../parsers/python-text.ts'
import type { RunProfile, StagedAsset } from './run-profile.ts'
import { PATCH_PATH } from './testbed.ts'

const HEAD = ['#!/bin/bash', 'set -uxo pipefail']
const EXIT_CODE = ['SWEBENCH_TEST_EXIT_CODE=$?', 'echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"'] as const

/** The folder of files that a patch cannot carry. */
const ASSET_FOLDER = '/image_assets'

/** The row's script after the head lines that upstream gives every script; it also prints the exit code of the tests. */
export function evalScript(rowScript: string, assets: readonly StagedAsset[] = []): string {
  const commands = pythonStrip(rowScript)
    .split('\n')
    .filter((line) => !HEAD.includes(line))
  const script = `${[...HEAD, ...recordExitCode(commands)].join('\n')}\n`
  return restoreAssets(script, assets)
}

/** A script without an end marker stays unchanged. */
function recordExitCode(commands: readonly string[]): string[] {
  const end = commands.findIndex((line) => line.includes(END_MARKER))
  if (end < 0) return [...commands]
  return [
    ...commands.slice(0, end),
    EXIT_CODE[0],
    ...commands.slice(end, end + 1),
    EXIT_CODE[1],
    ...commands.slice(end + 1),
  ]
}

/** Copies the assets after the script has reset and patched the tests, just before the tests start. */
function restoreAssets(script: string, assets: readonly StagedAsset[]): string {
  if (assets.length === 0) return script
  const restore = assets.map(({ path }) => `mkdir -p $(dirname ${path}) && cp ${assetPath(path)} ${path}`)
  const lines = script.split('\n')
  const start = lines.findIndex((line) => line.includes(START_MARKER))
  if (start < 0) return `${script}\n${restore.join('\n')}`
  return [...lines.slice(0, start), ...restore, ...lines.slice(start)].join('\n')
}

/** Path in the container. */
export function assetPath(path: string): string {
  return `${ASSET_FOLDER}/${path.replaceAll('/', '__')}`
}

/** Profile `swebench-5`: the row has its own script; the tree is cleaned between attempts to apply the patch. */
export const swebench5Profile: RunProfile = {
  name: 'swebench-5',
  upstream: 'PyPI swebench 5.0.2',
  revision: 1,
  plan({ taskId, harness }, { hasPatch, assets = [] }) {
    const script = harness?.evalScript ?? null
    if (script === null) {
      throw new LonghaulError({
        code: 'Task.Invalid',
        message: 'Expected eval_script to be a script, got none',
        details: { row: taskId, column: 'eval_script' },
      })
    }
    return {
      patchPath: PATCH_PATH,
      applyCommands: hasPatch ? APPLY_COMMANDS : [],
      resetCommand: ['/bin/bash', '-c', 'git checkout -- . ; git clean -fd'],
      // The patch may be applied although every attempt reported a failure.
      lastCheck: hasPatch ? ['git', 'apply', '--check', '--reverse', PATCH_PATH] : null,
      evalScript: evalScript(script, assets),
      output: 'merged',
      files: {},
      environment: {},
    }
  },
}

const APPLY_COMMANDS = [
  ['git', 'apply', '--verbose', PATCH_PATH],
  ['git', 'apply', '--verbose', '--3way', PATCH_PATH],
  ['git', 'apply', '--verbose', '--reject', PATCH_PATH],
  ['patch', '--batch', '--forward', '--fuzz=5', '-p1', '-i', PATCH_PATH],
]
