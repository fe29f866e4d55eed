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
  /** What the patch alone shows: its tests are not run a second time. */
  voids: { reason: AuditReason; detail: string }[]
  /** Whether the row's tests have a second run at all. */
  isSupported: boolean
}

/** What a grading container audits of one patch.
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

/** More tests than a copy of a module takes. */
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
  // Django's runner takes labels, every other runner takes files: without its repository the paths stay as they are.
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

/** Files with listed tests: those that the test patch leaves behind in its order, then the others that the lists name. */
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
  // A row with a script of its own names them there; for the others the test patch does.
  if (runner === 'django') return names.length > 0 ? [...names] : [...directives]
  return names.filter((name) => !name.endsWith('.py'))
}
