/** Shared by the benches that play tasks of three repository layouts while a worker is killed. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stackPaths } from '../../src/stack/paths.ts'
import { startStack } from '../../test/support/start-stack.ts'
import {
  buildLayoutImages,
  type LayoutTask,
  layoutTasks,
  removeLayoutImages,
} from '../../test/support/layouts/layout-tasks.ts'
import { type PipelineWorld, worldOf } from '../../test/support/pipeline-world.ts'
import { conclude, endWith2OnError } from './conclude.ts'
import { interruption } from './interruption.ts'
import { versions } from './versions.ts'

export interface LayoutBenchInput {
  /** Name of the bench, and part of the stack's name. */
  bench: string
  /** Each series has its own tasks and images. */
  series: number
  play: (input: { world: PipelineWorld; tasks: LayoutTask[] }) => Promise<LayoutBenchReport>
  /** Whether stdout gets the report instead of a line about it. */
  json: boolean
  /** File for the report. */
  out: string | undefined
}

export interface LayoutBenchReport {
  tasks: number
  kills: readonly unknown[]
  violations: readonly string[]
}

/** Plays on its own stack and images, removes both and writes the report. Exit code 1 on any violation, 2 if nothing was compared. */
export async function playOnLayouts({ bench, series, play, json, out }: LayoutBenchInput): Promise<void> {
  endWith2OnError()
  const signal = interruption()
  const home = mkdtempSync(join(tmpdir(), `longhaul-${bench}-`))
  const { cacheDir } = stackPaths()
  try {
    const stack = await startStack({ name: `${bench}-${process.pid}`, home, quiet: true, signal })
    try {
      const world = await worldOf(stack)
      const tasks = layoutTasks({ series })
      try {
        await buildLayoutImages({ engine: world.engine, cacheDir: join(cacheDir, 'images'), tasks })
        const report = await play({ world, tasks })
        const text = `${JSON.stringify({ bench, date: new Date().toISOString(), ...versions(), ...report }, null, 2)}\n`
        if (out !== undefined) writeFileSync(out, text)
        if (json) process.stdout.write(text)
        else console.log(`${report.tasks} tasks, ${report.kills.length} kills: ${report.violations.length} violations`)
        const compared = { tasks: report.tasks, kills: report.kills.length }
        process.exitCode = conclude({ compared, violations: report.violations.length })
      } finally {
        await removeLayoutImages({ engine: world.engine, tasks })
        await world.close()
      }
    } finally {
      await stack.stop()
    }
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}
