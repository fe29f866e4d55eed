/**
 * Container tasks of the three layouts that Longhaul grades, for tests of gates and grading. Ten or more of each:
 *
 * - `conda`: the repository at `/testbed` under a commit "SWE-bench" on top of the base commit, an environment `testbed` that
 *   root's `.bashrc` activates; rows of SWE-bench with its first columns (`swebench-4.1`), of version 5 (`swebench-5`) and
 *   of SWE-rebench (`fork-4.0.3`);
 * - `plain`: the repository at `/<repository name>` with HEAD at the base commit and no environment; rows of
 *   SWE-rebench-V2 (`rebench-v2`);
 * - `synthetic`: the tasks that Longhaul makes itself.
 *
 * ```ts
 * const layout = layoutTasks({ series: process.pid })
 * await writeLayoutRows(path, layout)                            // JSON Lines, for `tasks import` or `kind: rows`
 * await buildLayoutImages({ engine, cacheDir, tasks: layout })   // 0.3 s each
 * … layout[0].task, layout[0].task.goldPatch, layout[0].wrongPatch …
 * await removeLayoutImages({ engine, tasks: layout })
 * ```
 *
 * Gold resolves every one of them and the empty patch none. Every row has gone through the importer's own normaliser.
 */
import { writeFile } from 'node:fs/promises'
import { normalizeRow } from '../../../src/adapters/datasets/normalize-row.ts'
import { synthesizeTask } from '../../../src/adapters/datasets/synthetic/synthesize.ts'
import { ensureBaseImage } from '../../../src/adapters/docker/images/base-image.ts'
import { isStatus } from '../../../src/adapters/docker/engine/engine-errors.ts'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { buildTaskImage, imageExists } from '../../../src/adapters/docker/images/images.ts'
import type { Task } from '../../../src/contracts/tasks.types.ts'
import { ensureCondaImage } from './images.ts'
import { createProblem } from './problem.ts'
import { createRepository } from './repository.ts'
import { classicRow, forkRow, type Row, type RowInput, v2Row, v5Row } from './rows.ts'
import type { RunnerName } from './runners.ts'

export type Layout = 'conda' | 'plain' | 'synthetic'

export interface LayoutTask {
  layout: Layout
  /** As published, with the columns of its data set. */
  row: Row
  /** The normaliser's result. */
  task: Task
  /** Applies, but repairs nothing. */
  wrongPatch: string
  /** The image's content above its base, for `buildLayoutImages`. */
  archive: { tar(): Promise<Uint8Array>; path: string }
}

export interface LayoutTasksOptions {
  /** Part of every id and image, so that concurrent tests use different ones; a process id suffices. */
  series: number
  /** @default all three */
  layouts?: readonly Layout[]
  /** Maximum tasks of each layout. @default all: 12 conda, 10 plain, 10 synthetic */
  perLayout?: number
}

interface CondaPlan {
  repo: string
  version: string
  runner: RunnerName
  /** Empty if the row names none. */
  parser: string
  row: (input: RowInput) => Row
}

const CONDA: CondaPlan[] = [
  { repo: 'psf/requests', version: '2.31', runner: 'pytest', parser: '', row: classicRow },
  { repo: 'pylint-dev/astroid', version: '3.0', runner: 'pytest', parser: 'parse_log_pytest', row: v5Row },
  { repo: 'lane/fork-shop', version: '', runner: 'pytest', parser: 'parse_log_pytest', row: forkRow },
  { repo: 'django/django', version: '4.2', runner: 'django', parser: '', row: classicRow },
  { repo: 'django/django', version: '5.0', runner: 'django', parser: 'parse_log_django', row: v5Row },
  { repo: 'lane/fork-shop', version: '', runner: 'pytest', parser: 'parse_log_pytest_v2', row: forkRow },
  { repo: 'sympy/sympy', version: '1.12', runner: 'sympy', parser: '', row: classicRow },
  { repo: 'sympy/sympy', version: '1.13', runner: 'sympy', parser: 'parse_log_sympy', row: v5Row },
  { repo: 'lane/fork-shop', version: '', runner: 'pytest', parser: 'parse_log_pytest_options', row: forkRow },
  { repo: 'mwaskom/seaborn', version: '0.12', runner: 'pytest', parser: '', row: classicRow },
  { repo: 'astropy/astropy', version: '5.2', runner: 'pytest', parser: 'parse_log_astropy', row: v5Row },
  { repo: 'django/django', version: '3.2', runner: 'django', parser: '', row: classicRow },
]

const PLAIN: { runner: RunnerName; parser: string }[] = [
  { runner: 'pytest', parser: 'parse_log_pytest' },
  { runner: 'gotest', parser: 'parse_log_gotest' },
  { runner: 'cargo', parser: 'parse_log_cargo' },
  { runner: 'vitest', parser: 'parse_log_vitest' },
  { runner: 'pytest', parser: 'parse_log_pytest_options' },
  { runner: 'pytest', parser: 'parse_log_pytest_v2' },
  { runner: 'gotest', parser: 'parse_log_gotest' },
  { runner: 'cargo', parser: 'parse_log_cargo' },
  { runner: 'pytest', parser: 'parse_log_pytest_nebo' },
  { runner: 'vitest', parser: 'parse_log_vitest' },
]

const SYNTHETIC = 10

/** The tasks, without their images. Equal options give equal rows and commits. */
export function layoutTasks({ series, layouts, perLayout = 100 }: LayoutTasksOptions): LayoutTask[] {
  const makers: Record<Layout, () => LayoutTask[]> = {
    conda: () => CONDA.slice(0, perLayout).map((plan, index) => condaTask(plan, series, index)),
    plain: () => PLAIN.slice(0, perLayout).map((plan, index) => plainTask(plan, series, index)),
    synthetic: () => Array.from({ length: Math.min(SYNTHETIC, perLayout) }, (_, index) => syntheticTask(series, index)),
  }
  return (layouts ?? (['conda', 'plain', 'synthetic'] as const)).flatMap((layout) => makers[layout]())
}

/** Writes one row per line, in the order of the tasks. */
export async function writeLayoutRows(path: string, tasks: readonly LayoutTask[]): Promise<void> {
  await writeFile(path, tasks.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
}

interface LayoutImagesInput {
  engine: Engine
  /** Folder with the base image's archive: `join(stackPaths().cacheDir, 'images')`. */
  cacheDir: string
  tasks: readonly LayoutTask[]
}

/** Builds the missing images. */
export async function buildLayoutImages({ engine, cacheDir, tasks }: LayoutImagesInput): Promise<void> {
  const plain = await ensureBaseImage({ engine, cacheDir, log: () => undefined })
  const conda = tasks.some(({ layout }) => layout === 'conda') ? await ensureCondaImage({ engine, cacheDir }) : ''
  await Promise.all(
    tasks.map(async ({ layout, task, archive }) => {
      if (await imageExists({ engine, image: task.image })) return
      const base = layout === 'conda' ? conda : plain.tag
      const repoTar = await archive.tar()
      await buildTaskImage({ engine, base, tag: task.image, repoTar, repoDir: archive.path, labels: {} })
    }),
  )
}

/** Keeps the shared base of the conda layout, whose name identifies its content. */
export async function removeLayoutImages({
  engine,
  tasks,
}: Pick<LayoutImagesInput, 'engine' | 'tasks'>): Promise<void> {
  await Promise.all(
    tasks.map(({ task }) =>
      engine.docker
        .getImage(task.image)
        .remove({ force: true })
        .catch((error: unknown) => {
          if (!isStatus(error, 404)) throw error
        }),
    ),
  )
}

function condaTask({ repo, version, runner, parser, row }: CondaPlan, series: number, index: number): LayoutTask {
  const number = series * 100 + index
  const problem = createProblem({ runner, number, needsEnvironment: true, addsTestFile: index % 2 === 1 })
  const repository = createRepository(problem, { directory: 'testbed', setUpCommit: true })
  const id = `${repo.replace('/', '__')}-${number}`
  return finish('conda', row({ id, repo, version, runner, parser, problem, repository }), rooted(repository.tar))
}

function plainTask({ runner, parser }: (typeof PLAIN)[number], series: number, index: number): LayoutTask {
  const number = series * 100 + index
  const problem = createProblem({ runner, number, needsEnvironment: false, addsTestFile: index % 2 === 1 })
  const directory = `shop-${index}`
  const repository = createRepository(problem, { directory, setUpCommit: false })
  const repo = `lane/${directory}`
  const input = { id: `lane__shop-${index}-${number}`, repo, version: '', runner, parser, problem, repository }
  return finish('plain', v2Row({ ...input, pullRequest: number }), rooted(repository.tar))
}

function syntheticTask(series: number, index: number): LayoutTask {
  const { row, repoTar } = synthesizeTask({ family: 'one-wrong-line', seed: series, split: 'eval', index })
  return finish('synthetic', row, { tar: repoTar, path: '/testbed' })
}

function rooted(tar: Uint8Array): LayoutTask['archive'] {
  return { tar: async () => tar, path: '/' }
}

function finish(layout: Layout, row: Row, archive: LayoutTask['archive']): LayoutTask {
  return { layout, row, task: normalizeRow(row), wrongPatch: WRONG_PATCH, archive }
}

const WRONG_PATCH = `diff --git a/NOTES.md b/NOTES.md
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/NOTES.md
@@ -0,0 +1 @@
+hello
`
