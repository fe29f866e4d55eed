/** What the benches have in common that play tasks of three repository layouts while a worker is killed. */
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
  /** Of the bench; part of the stack's name too. */
  bench: string
  /** Another series are other tasks and images. */
  series: number
  play: (input: { world: PipelineWorld; tasks: LayoutTask[] }) => Promise<LayoutBenchReport>
  /** Whether the report goes to stdout instead of a line about it. */
  json: boolean
  /** File for the report. */
  out: string | undefined
}

export interface LayoutBenchReport {
  tasks: number
  kills: readonly unknown[]
  violations: readonly string[]
}

/** Plays on a stack and images of its own, removes both and writes the report. Exit code 1 when something was violated, 2 when nothing was compared. */
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
