/** Rows and column types of each publication, by their published schemas. */
import type { RowSchema } from './write-parquet.ts'

type Row = Record<string, unknown>

const TEST_PATCH = 'diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n@@ -1 +1,2 @@\n a\n+b\n'
/** Carriage returns, a form feed and no final newline: a patch is bytes. */
export const ODD_PATCH =
  'diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,3 @@\n one\r\n-two\f\r\n+zwei ü\r\n+fresh_name = 1\r\n\\ No newline at end of file'

const common = (id: string): Row => ({
  repo: 'owner/thing',
  instance_id: id,
  base_commit: '0123456789abcdef0123456789abcdef01234567',
  patch: ODD_PATCH,
  test_patch: TEST_PATCH,
  problem_statement: 'It is broken.',
})

const COMMON: RowSchema = {
  repo: 'text',
  instance_id: 'text',
  base_commit: 'text',
  patch: 'text',
  test_patch: 'text',
  problem_statement: 'text',
}

const lists = { FAIL_TO_PASS: ['t.py::test_a '], PASS_TO_PASS: ['t.py::test_ü', 't.py::test_b', 't.py::test_ü'] }
const jsonLists = { FAIL_TO_PASS: JSON.stringify(lists.FAIL_TO_PASS), PASS_TO_PASS: JSON.stringify(lists.PASS_TO_PASS) }

export const classic = {
  schema: {
    ...COMMON,
    hints_text: 'text',
    created_at: 'text',
    version: 'text',
    FAIL_TO_PASS: 'text',
    PASS_TO_PASS: 'text',
    environment_setup_commit: 'text',
    difficulty: 'text',
  } satisfies RowSchema,
  row: (id = 'django__django-11099'): Row => ({
    ...common(id),
    repo: 'django/django',
    hints_text: '',
    created_at: '2019-03-20T03:46:18Z',
    version: '3.0',
    ...jsonLists,
    environment_setup_commit: '0123456789abcdef0123456789abcdef01234567',
    difficulty: '<15 min fix',
  }),
}

export const v5 = {
  schema: {
    ...classic.schema,
    image: 'text',
    eval_script: 'text',
    log_parser: 'text',
    eval_type: 'text',
    image_assets: 'text',
  } satisfies RowSchema,
  row: (id = 'django__django-11099'): Row => ({
    ...classic.row(id),
    image: `swebench/sweb.eval.x86_64.${id.replaceAll('__', '_1776_')}:latest`,
    eval_script: '#!/bin/bash\npytest t.py\n',
    log_parser: 'parse_log_django',
    eval_type: 'pass_and_fail',
    image_assets: '{}',
  }),
}

export const rebench = {
  schema: {
    ...COMMON,
    hints_text: 'text',
    created_at: 'timestamp',
    version: 'float',
    FAIL_TO_PASS: ['text'],
    PASS_TO_PASS: ['text'],
    FAIL_TO_FAIL: ['text'],
    PASS_TO_FAIL: ['text'],
    install_config: {
      python: 'text',
      install: 'text',
      pre_install: ['text'],
      packages: 'text',
      test_cmd: 'text',
      log_parser: 'text',
      no_use_env: 'bool',
    },
    meta: {
      num_modified_files: 'int64',
      is_lite: 'bool',
      failed_lite_validators: ['text'],
      llm_score: { difficulty_score: 'int64', issue_text_score: 'int64', test_score: 'int64' },
    },
    image_name: 'text',
    docker_image: 'text',
  } satisfies RowSchema,
  row: (id = 'owner__thing-7'): Row => ({
    ...common(id),
    hints_text: null,
    created_at: new Date('2025-05-02T10:00:00Z'),
    version: 0,
    ...lists,
    FAIL_TO_FAIL: [],
    PASS_TO_FAIL: [],
    install_config: {
      python: '3.9',
      install: 'pip install -e .',
      pre_install: null,
      packages: 'requirements.txt',
      test_cmd: 'pytest -rA',
      log_parser: 'parse_log_pytest',
      no_use_env: null,
    },
    meta: {
      num_modified_files: 1n,
      is_lite: true,
      failed_lite_validators: [],
      llm_score: { difficulty_score: 1n, issue_text_score: 0n, test_score: -1n },
    },
    image_name: null,
    docker_image: null,
  }),
}

/** v1 with the additions of the monthly splits: prebuilt images, quality codes, limits for another harness. */
export const leaderboard = {
  schema: {
    ...rebench.schema,
    environment_setup_commit: 'text',
    requirements: 'text',
    environment: 'text',
    license_name: 'text',
    harbor_cpus: 'float',
    harbor_memory: 'text',
  } satisfies RowSchema,
  row: (id = 'owner__thing-7', day = '2026-03-02'): Row => ({
    ...rebench.row(id),
    created_at: new Date(`${day}T10:00:00Z`),
    environment_setup_commit: '0123456789abcdef0123456789abcdef01234567',
    requirements: 'pytest==8.3.4\n',
    environment: 'name: testbed\n',
    license_name: 'MIT License',
    image_name: `swerebench/sweb.eval.x86_64.${id.replaceAll('__', '_1776_')}:latest`,
    docker_image: `swerebench/sweb.eval.x86_64.${id.replaceAll('__', '_1776_')}:latest`,
    harbor_cpus: null,
    harbor_memory: null,
  }),
}

export const rebenchV2 = {
  schema: {
    ...COMMON,
    created_at: 'int64',
    language: 'text',
    pr_description: 'text',
    interface: 'text',
    FAIL_TO_PASS: ['text'],
    PASS_TO_PASS: ['text'],
    image_name: 'text',
    install_config: {
      base_image_name: 'text',
      docker_specs: 'text',
      install: ['text'],
      log_parser: 'text',
      log_parsers: 'text',
      test_cmd: ['text'],
    },
    meta: {
      num_modified_files: 'int64',
      num_modified_lines: 'int64',
      pr_labels: ['text'],
      llm_metadata: { code: 'text' },
    },
  } satisfies RowSchema,
  row: (id = 'owner__thing-9'): Row => ({
    ...common(id),
    created_at: 1_714_521_600_000n,
    language: 'go',
    pr_description: null,
    interface: null,
    ...lists,
    image_name: 'docker.io/swerebenchv2/owner-thing:9-0123456',
    install_config: {
      base_image_name: 'go_1',
      docker_specs: null,
      install: ['go mod download', 'go build ./...'],
      log_parser: 'parse_log_gotest',
      log_parsers: null,
      test_cmd: ['go test -v ./...'],
    },
    meta: { num_modified_files: 1n, num_modified_lines: 3n, pr_labels: [], llm_metadata: null },
  }),
}
