/** Compares the reports of SWE-rebench-V2's own script on patches that it graded in containers with Longhaul's. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { gradeLog } from '../../../src/grading/grade-log.ts'
import { LOG_PROFILES } from '../../../src/grading/log-profiles.ts'
import { withoutTiming } from '../../../src/grading/test-names.ts'
import { rebenchV2Report, type V2Outcome } from '../../../src/report/official/run-report.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import type { CompareContainersInput, ContainerComparison } from './compare-containers.ts'
import { countOutcomes } from './count-outcomes.ts'
import { containerRuns, type GradedCase, gradeCases } from './container-cases.ts'
import { locateHarness } from './oracle.ts'

/** Upstream's script runs the program `docker`, which must be installed. */
export async function compareV2(input: Omit<CompareContainersInput, 'harness'>): Promise<ContainerComparison> {
  const { engine, tasks, kinds, folder, workers } = input
  const runs = containerRuns(tasks, kinds)
  const theirs = join(folder, 'theirs')
  const ours = join(folder, 'ours')
  await Promise.all([theirs, ours].map((path) => mkdir(path, { recursive: true })))
  const { python, folder: source } = await locateHarness('rebench-v2')
  const dataset = join(theirs, 'dataset.json')
  await writeFile(dataset, JSON.stringify(tasks.map(({ row }) => row)))
  const graded = await gradeCases({ engine, runs, folder: ours, workers })
  const differences: string[] = []
  for (const { kind, cases } of runs) {
    const patches = join(theirs, `${kind}.json`)
    const report = join(theirs, `${kind}.report.json`)
    await writeFile(patches, JSON.stringify(cases.map(({ task, patch }) => ({ instance_id: task.task.taskId, patch }))))
    const flags = { json: dataset, patches, 'report-json': report, 'max-workers': String(workers) }
    const { tail } = await runCommand({
      command: python,
      args: [
        join(source, 'scripts/eval.py'),
        ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
      ],
      cwd: theirs,
      env: { ...process.env, DOCKER_HOST: engine.host, PYTHONUTF8: '1', PYTHONDONTWRITEBYTECODE: '1' },
      timeoutMs: 1_800_000,
    })
    const outcomes = graded.filter((one) => one.kind === kind).map(outcomeOf)
    const right = JSON.parse(rebenchV2Report({ maxWorkers: workers, outcomes })) as { items: { instance_id: string }[] }
    const left = JSON.parse(
      await readFile(report, 'utf8').catch(() => `{"items": [], "ended": ${JSON.stringify(tail)}}`),
    ) as {
      items: { instance_id: string }[]
    }
    if (isDeepStrictEqual(left, right)) continue
    differences.push(
      `${kind}: ${JSON.stringify({ ...left, items: [] })} and ${JSON.stringify({ ...right, items: [] })}`,
    )
    for (const [index, item] of right.items.entries()) {
      if (!isDeepStrictEqual(left.items[index], item)) {
        differences.push(
          `${kind} ${item.instance_id}: ${JSON.stringify(left.items[index])} is not ${JSON.stringify(item)}`,
        )
      }
    }
  }
  return { predictions: graded.length, outcomes: countOutcomes(graded), differences }
}

function outcomeOf({ task: { task }, graded, log }: GradedCase): V2Outcome {
  const found = gradeLog({
    profile: LOG_PROFILES['rebench-v2'],
    parser: task.installConfig.logParser,
    log,
    tests: task,
  })
  const passed =
    found.kind === 'graded' ? [...found.statuses].flatMap(([name, status]) => (status === 'PASSED' ? [name] : [])) : []
  return {
    taskId: task.taskId,
    failToPass: task.failToPass.map(withoutTiming),
    passToPass: task.passToPass.map(withoutTiming),
    result: {
      passed,
      matches: graded?.kind === 'resolved',
      exitCode: graded?.provenance?.exitCode ?? null,
      logPath: `logs/${task.taskId}_log.txt`,
    },
    error: '',
  }
}
