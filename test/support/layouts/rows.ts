/** Rows of the layout tasks, with the columns of each publication. */
import type { Problem } from './problem.ts'
import type { ProblemRepository } from './repository.ts'
import type { RunnerName } from './runners.ts'

export type Row = Record<string, unknown>

export interface RowInput {
  id: string
  repo: string
  runner: RunnerName
  parser: string
  version: string
  problem: Problem
  repository: ProblemRepository
}

function common({ id, repo, problem, repository }: RowInput): Row {
  return {
    repo,
    instance_id: id,
    base_commit: repository.baseCommit,
    patch: repository.goldPatch,
    test_patch: repository.testPatch,
    problem_statement: 'The total of the prices lacks the fee. See `total` in shop/prices.py.',
    created_at: '2025-01-01T00:00:00Z',
    FAIL_TO_PASS: problem.failToPass,
    PASS_TO_PASS: problem.passToPass,
  }
}

/** SWE-bench with its first columns: lists as JSON text; repository and version determine the commands. */
export function classicRow(input: RowInput): Row {
  const { problem, repository, version } = input
  return {
    ...common(input),
    FAIL_TO_PASS: JSON.stringify(problem.failToPass),
    PASS_TO_PASS: JSON.stringify(problem.passToPass),
    hints_text: '',
    version,
    environment_setup_commit: repository.baseCommit,
  }
}

/** The publication of version 5: the row contains script, parser and image. */
export function v5Row(input: RowInput): Row {
  return {
    ...classicRow(input),
    image: `swebench/${evaluationImage(input.id)}`,
    eval_script: v5Script(input),
    log_parser: input.parser,
    eval_type: 'pass_and_fail',
  }
}

/** SWE-rebench: the row contains the commands for installing and testing. */
export function forkRow(input: RowInput): Row {
  return {
    ...classicRow(input),
    FAIL_TO_PASS: input.problem.failToPass,
    PASS_TO_PASS: input.problem.passToPass,
    FAIL_TO_FAIL: [],
    PASS_TO_FAIL: [],
    version: '0.0',
    install_config: {
      python: '3.11',
      install: 'python -c "import bedrock"',
      test_cmd: 'pytest -rA',
      log_parser: input.parser,
    },
    image_name: null,
    docker_image: null,
    meta: { is_lite: true, num_modified_files: 1 },
  }
}

/** SWE-rebench-V2: a list of commands, and an image named by pull request and commit. */
export function v2Row(input: RowInput & { pullRequest: number }): Row {
  const { repo, repository, parser, runner, pullRequest } = input
  return {
    ...common(input),
    created_at: 1_735_689_600_000,
    language: { pytest: 'python', gotest: 'go', cargo: 'rust', vitest: 'ts', django: 'python', sympy: 'python' }[
      runner
    ],
    pr_description: null,
    interface: null,
    image_name: `swerebenchv2/${repo.replace('/', '-')}:${pullRequest}-${repository.baseCommit.slice(0, 7)}`,
    install_config: {
      base_image_name: 'python_1',
      docker_specs: null,
      install: [],
      log_parser: parser,
      log_parsers: null,
      test_cmd: runner === 'pytest' ? ['echo ready', 'python3 -m pytest -rA tests'] : ['python3 tools/run_checks.py'],
    },
    meta: { num_modified_files: 1, num_modified_lines: 1, pr_labels: [], llm_metadata: null },
  }
}

/** The name that upstream derives; registries forbid two consecutive underscores. */
export function evaluationImage(id: string): string {
  return `sweb.eval.x86_64.${id.toLowerCase().replaceAll('__', '_1776_')}:latest`
}

const TEST_COMMANDS: Partial<Record<RunnerName, string>> = {
  pytest: 'pytest -rA',
  django: './tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1',
  sympy: 'bin/test -C --verbose',
}

/** Upstream's own form: checks out changed files and removes new ones, before the tests and after them. */
function v5Script({ problem, repository, runner }: RowInput): string {
  const { baseCommit, testPatch } = repository
  const changed = problem.testFiles.filter((path) => path in problem.files)
  const added = problem.testFiles.filter((path) => !(path in problem.files))
  const activate = ['source /opt/miniconda3/bin/activate', 'conda activate testbed']
  const reset = [
    ...(changed.length === 0 ? [] : [`git checkout ${baseCommit} ${changed.join(' ')}`]),
    ...(added.length === 0 ? [] : [`rm -f ${added.join(' ')}`]),
  ]
  const words = runner === 'django' ? problem.testFiles.map(djangoLabel) : problem.testFiles
  return [
    '#!/bin/bash',
    'set -uxo pipefail',
    ...activate,
    'cd /testbed',
    'git config --global --add safe.directory /testbed',
    'cd /testbed',
    'git status',
    'git show',
    `git -c core.fileMode=false diff ${baseCommit}`,
    ...activate,
    ...reset,
    `git apply -v - <<'EOF_114329324912'\n${testPatch}\nEOF_114329324912`,
    ": '>>>>> Start Test Output'",
    [TEST_COMMANDS[runner], ...words].join(' '),
    ": '>>>>> End Test Output'",
    ...reset,
    '',
  ].join('\n')
}

function djangoLabel(path: string): string {
  return path
    .replace(/^tests\//, '')
    .replace(/\.py$/, '')
    .replaceAll('/', '.')
}
