import type { SweRebenchRow, SyntheticSource } from '../../../contracts/tasks.types.ts'
import { composeTask } from './compose.ts'
import type { ComposedTask } from './compose.ts'
import { joinLines, lineChangeDiff, newFileDiff } from './diffs.ts'
import { commitFiles } from './git-objects.ts'
import type { RepositoryFile } from './git-objects.ts'
import { hiddenTests } from './hidden-tests.ts'
import { repositoryTar } from './repository-tar.ts'

export interface SynthesizedTask {
  row: SweRebenchRow
  /** Working tree and `.git` for the root of the repository; deterministic. */
  repoTar(): Promise<Uint8Array>
  /** What the generator knows, for scripted solvers and tests. */
  composed: ComposedTask
}

/** `-B` and no cache: the grader needs no traces of its own run. Long paths are never cut, so ids stay whole. */
const TEST_COMMAND = 'python3 -B -m pytest -rA -p no:cacheprovider'

const CREATED_AT = '2025-01-01T00:00:00'

/** One task of the family, as a row of the SWE-rebench schema. Same source, same row, same repository. */
export function synthesizeTask(source: SyntheticSource): SynthesizedTask {
  const composed = composeTask(source)
  const files = repositoryFiles(composed)
  const tree = commitFiles(files, `Add ${composed.packageName}`)
  const { target, targetLine, packageName } = composed
  const home = composed.modules.find(({ path }) => path === targetLine.path)
  const tests = hiddenTests(composed, source)
  const taskId = `synthetic__${source.split}-${String(source.index).padStart(6, '0')}`

  const row: SweRebenchRow = {
    instance_id: taskId,
    repo: `longhaul/${packageName}`,
    base_commit: tree.commit,
    environment_setup_commit: tree.commit,
    patch: lineChangeDiff({
      path: targetLine.path,
      before: home?.lines ?? [],
      line: targetLine.wrongLine,
      text: targetLine.rightText,
    }),
    test_patch: newFileDiff(tests),
    problem_statement: composed.statement,
    hints_text: '',
    created_at: CREATED_AT,
    version: '1.0',
    FAIL_TO_PASS: tests.failToPass,
    PASS_TO_PASS: tests.passToPass,
    FAIL_TO_FAIL: [],
    PASS_TO_FAIL: [],
    install_config: { python: '3.11', test_cmd: TEST_COMMAND, log_parser: 'parse_log_pytest' },
    requirements: '',
    environment: '',
    license_name: 'MIT',
    docker_image: null,
    // The commit names the content: another seed with the same index is another image.
    image_name: `longhaul/synthetic:${taskId}-${tree.commit.slice(0, 12)}`,
    meta: { synthetic: source, level: composed.level, kind: target.kind },
  }
  return { row, composed, repoTar: () => repositoryTar(files, tree) }
}

export interface SuiteRequest {
  seed: number
  split: 'train' | 'eval'
  count: number
  offset: number
}

/** `count` tasks from index `offset` on. */
export function synthesizeSuite({ seed, split, count, offset }: SuiteRequest): SynthesizedTask[] {
  return Array.from({ length: count }, (_, position) =>
    synthesizeTask({ family: 'one-wrong-line', seed, split, index: offset + position }),
  )
}

function repositoryFiles({ packageName, modules }: ComposedTask): RepositoryFile[] {
  return [
    { path: '.gitignore', content: '__pycache__/\n' },
    { path: `${packageName}/__init__.py`, content: '' },
    ...modules.map(({ path, lines }) => ({ path, content: joinLines(lines) })),
  ]
}
