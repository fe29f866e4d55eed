import { continueAsNew, patched } from '@temporalio/workflow'
import type { GateSuiteInput, GateSuiteResult, PreparedSuite, ResolvedRun } from '../contracts/workflows.types.ts'
import { artifacts, slowControl } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { gatePage, type GatePageInput, requireImages } from './gate-tasks.ts'
import { requireResult } from './require-result.ts'
import { resolveRun } from './resolve-run.ts'
import { type RootProgress, watchable } from './run-control.ts'

/**
 * Gates one suite on its own, with all checks of every task, and reports the results: `{"recipe": "demo"}` is a complete input.
 * Activities: those of a gate, and one that writes report and evidence. A task that cannot be gated is a finding and does not end the
 * workflow, but a suite without any available image is refused at the start. Continues as new before its history has 2,000 events;
 * queries `progress`, `blockers`. On cancel open gradings end; recorded results are kept.
 */
export async function gateSuite(input: GateSuiteInput = {}): Promise<GateSuiteResult> {
  const progress = watchable(input.page?.plan.run ?? null)
  try {
    const { plan: run, suite, from, refused } = input.page ?? (await prepare(input, progress))
    const onTask: GatePageInput['onTask'] = ({ tasks: done, refused: failed }) =>
      progress.enter(`gating ${suite.tasks} tasks of ${suite.name}, ${done} done, ${failed} refused`, run.run, {
        unit: 'tasks',
        done,
        total: suite.tasks,
        failed,
      })
    onTask({ tasks: from, refused })
    const page = await gatePage({ run, suite, from, refused, onTask })
    if (page.next < suite.tasks) {
      return await continueAsNew<typeof gateSuite>({
        ...input,
        page: { plan: run, suite, from: page.next, refused: page.refused },
      })
    }
    requireResult('closeGate', await slowControl.closeGate({ run: run.run, suite: suite.suite }))
    progress.enter('writing the report', run.run)
    const report = await artifacts.writeGateReport({ run: run.run, suite: suite.suite })
    const written = requireResult('writeGateReport', report)
    progress.enter('done', run.run)
    return {
      run: run.run,
      suite: suite.suite,
      name: suite.name,
      tasks: suite.tasks,
      repeats: run.gateRepeats,
      ...written,
    }
  } catch (error) {
    throw withCode(error)
  }
}

async function prepare(
  input: GateSuiteInput,
  progress: RootProgress,
): Promise<{ plan: ResolvedRun; suite: PreparedSuite; from: number; refused: number }> {
  const recipe = input.recipe ?? 'demo'
  const { run } = await resolveRun('gate', { ...input, recipe, overrides: withoutRefusing(input.overrides) })
  progress.enter('preparing the suite', run.run)
  const suite = requireResult(
    'prepareSuite',
    await slowControl.prepareSuite({ run: run.run, which: input.which ?? 'heldOut' }),
  )
  if (patched('images-first')) {
    progress.enter('looking for the images', run.run)
    await requireImages(run, [suite])
  }
  return { plan: run, suite, from: 0, refused: 0 }
}

/** A gate that is started alone reports on every task, even if the recipe refuses suites with failing tasks. */
function withoutRefusing(overrides: Record<string, unknown> = {}): Record<string, unknown> {
  const data = objectAt(overrides, 'data')
  return { ...overrides, data: { ...data, gate: { ...objectAt(data, 'gate'), refused: 'exclude' } } }
}

function objectAt(parent: Record<string, unknown>, key: string): Record<string, unknown> {
  const value = parent[key]
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
