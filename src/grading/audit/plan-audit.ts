import type { AuditedTests, AuditPlan, AuditReason } from '../../contracts/audit.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { type PatchFile, readPatchFiles } from '../patch-files.ts'
import { testDirectives } from '../profiles/fork-4.0.3.ts'
import { readPatchedFiles } from '../test-patch.ts'
import {
  findAdditions,
  findCollision,
  findStartupHook,
  type HiddenFile,
  hiddenFiles,
  treeLimits,
} from './hidden-tests.ts'
import { testCommandOf } from './test-command.ts'

export type AuditedTask = Pick<
  Task,
  | 'taskId'
  | 'repo'
  | 'testPatch'
  | 'goldPatch'
  | 'failToPass'
  | 'passToPass'
  | 'gradingProfile'
  | 'installConfig'
  | 'harness'
>

export interface PlannedAudit {
  plan: AuditPlan
  /** Findings from the patch alone; with any of them the tests are not run again. */
  voids: { reason: AuditReason; detail: string }[]
  /** Whether the audit can run the row's tests at all. */
  isSupported: boolean
}

/** Plans the audit of one patch in a grading container.
 *  @throws LonghaulError `Task.Invalid` for a test patch that cannot be read */
export function planAudit({
  task,
  patch,
  timeoutMs,
}: {
  task: AuditedTask
  patch: Uint8Array
  timeoutMs: number
}): PlannedAudit {
  const files = readPatchFiles(patch)
  const hidden = hiddenFiles(task.testPatch)
  const collision = findCollision(files, hidden)
  const hook = findStartupHook(files, task.goldPatch)
  const voids: PlannedAudit['voids'] = [
    ...(collision === null ? [] : [{ reason: 'collides-with-tests' as const, detail: collision }]),
    ...(hook === null ? [] : [{ reason: 'startup-hook' as const, detail: hook }]),
  ]
  const tests = auditedTests(task, { files, hidden, timeoutMs })
  return { plan: { tests: voids.length === 0 ? tests : null }, voids, isSupported: tests !== null }
}

/** Above the number of tests that one module's canaries use. */
const MAX_FOCUS = 200

function auditedTests(
  task: AuditedTask,
  {
    files: patchFiles,
    hidden,
    timeoutMs,
  }: { files: readonly PatchFile[]; hidden: readonly HiddenFile[]; timeoutMs: number },
): AuditedTests | null {
  const command = testCommandOf(task)
  if (command === null) return null
  const { runner, interpreter, arguments: words, roots } = command
  const patched = readPatchedFiles(task.testPatch)
  const directives = testDirectives(task.repo, patched)
  // Without its repository the paths stay paths: Django's runner takes labels, every other runner takes files.
  const files = testDirectives('', patched).filter((path) => path.endsWith('.py'))
  return {
    runner,
    testPatch: task.testPatch,
    limits: treeLimits({ hidden, goldPatch: task.goldPatch }),
    additions: findAdditions(patchFiles, { hidden, testPatch: task.testPatch }),
    interpreter,
    arguments: words,
    modules: runner === 'pytest' ? pytestModules(task, files) : files,
    labels: runner === 'pytest' ? [] : labelsOf(runner, command.names, directives),
    roots,
    focus: task.failToPass.slice(0, MAX_FOCUS),
    timeoutMs,
  }
}

/** Files with listed tests: first those that the test patch leaves behind, in its order, then all others that the lists name. */
function pytestModules({ failToPass, passToPass }: AuditedTask, patched: readonly string[]): string[] {
  const listed = new Set(
    [...failToPass, ...passToPass].flatMap((id) => {
      const at = id.indexOf('::')
      const path = id.slice(0, Math.max(0, at))
      return path.endsWith('.py') ? [path] : []
    }),
  )
  return [
    ...patched.filter((path) => listed.has(path)),
    ...[...listed].filter((path) => !patched.includes(path)).toSorted(),
  ]
}

function labelsOf(runner: 'unittest' | 'django', names: readonly string[], directives: readonly string[]): string[] {
  // A row with its own script names the labels there; otherwise the test patch names them.
  if (runner === 'django') return names.length > 0 ? [...names] : [...directives]
  return names.filter((name) => !name.endsWith('.py'))
}
