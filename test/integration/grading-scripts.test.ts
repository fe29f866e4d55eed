/** Evaluation scripts against those that the official harnesses make of the same rows, byte for byte; no container runs. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { SWEBENCH_4_1_COMMANDS } from '../../src/grading/profiles/swebench-4.1-commands.ts'
import { readCommands } from '../support/grading-oracle/commands.ts'
import { compareScripts, type ScriptRow } from '../support/grading-oracle/compare-scripts.ts'
import { harnessPython, locateHarness, missingSource } from '../support/grading-oracle/oracle.ts'

const header = (from: string, to: string, more = ''): string => `diff --git a/${from} b/${to}\n${more}`
const changed = (path: string): string =>
  `${header(path, path)}--- a/${path}\n+++ b/${path}\n@@ -1 +1,2 @@\n old\n+diff --git a/in_a_hunk.py b/in_a_hunk.py\n`
const added = (path: string): string =>
  `${header(path, path, 'new file mode 100644\n')}--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x = "$HOME" + '\\''\n`
const deleted = (path: string): string =>
  `${header(path, path, 'deleted file mode 100644\n')}--- a/${path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n`
const renamed = (from: string, to: string): string =>
  `${header(from, to, `similarity index 50%\nrename from ${from}\nrename to ${to}\n`)}--- a/${from}\n+++ b/${to}\n@@ -1 +1 @@\n-x\n+y\n`

/** What the rules of reset and of test words tell apart. */
const TEST_PATCHES = [
  changed('tests/app/test_a.py') + changed('tests/data.json'),
  added('tests/app/test_new.py'),
  changed('tests/test_a.py') +
    added('tests/b/test_b.py') +
    deleted('tests/test_gone.py') +
    renamed('tests/o.py', 'tests/n.py'),
  added('tests/with blank.py') + changed('docs/notes.csv'),
  // A file that is left empty, names that Git quotes, and a rename from a plain to a quoted one.
  header(
    'tests/__init__.py',
    'tests/__init__.py',
    '--- a/tests/__init__.py\n+++ b/tests/__init__.py\n@@ -1 +0,0 @@\n-x\n',
  ) +
    'diff --git "a/tests/\\303\\251.py" "b/tests/\\303\\251.py"\nold mode 100644\nnew mode 100755\n' +
    'diff --git a/tests/x y.py "b/tests/\\303\\251 y.py"\nsimilarity index 100%\n' +
    changed('tests/test_a.py'),
]

const row = (repo: string, version: string, index: number): ScriptRow => ({
  repo,
  instance_id: `${repo.replace('/', '__')}-${version.replaceAll('.', '')}-${index}`,
  base_commit: '0123456789abcdef0123456789abcdef01234567',
  patch: '--- a/x',
  test_patch: TEST_PATCHES[index],
  problem_statement: 'x',
  version,
  FAIL_TO_PASS: '["a"]',
  PASS_TO_PASS: '[]',
})

const everyVersion = [...SWEBENCH_4_1_COMMANDS].flatMap(([repo, groups]) =>
  groups.flatMap(({ versions }) => versions.map((version) => [repo, version] as const)),
)

/** Only the first run on a machine needs the registry. */
const missing = await Promise.all([harnessPython(), locateHarness('swebench-4.1'), locateHarness('swebench-5')]).then(
  () => false as const,
  (error: Error) => `the official harnesses cannot be installed here: ${error.message}`,
)

test('swebench-4.1: scripts equal the harness’s for every repository and version it knows', {
  skip: missing,
}, async () => {
  const rows = everyVersion.flatMap(([repo, version]) => TEST_PATCHES.map((_, index) => row(repo, version, index)))
  const { differences, scripts } = await compareScripts('swebench-4.1', rows)
  assert.deepEqual(differences.slice(0, 3), [])
  assert.equal(scripts, rows.length)
  assert.ok(scripts > 1000, String(scripts))
})

const SCRIPTS = [
  'pytest -rA',
  "\n\n#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\ngit checkout x\n\n",
  "echo set -uxo pipefail\nset -uxo pipefail\n: '>>>>> End Test Output'\n: '>>>>> End Test Output'\n: '>>>>> Start Test Output'\n",
  "\u001C a\r\n: '>>>>> Start Test Output'\u00A0\n\u0085",
]

test('swebench-5: scripts of rows equal the harness’s, with and without binary files', {
  skip: missing,
}, async () => {
  const assets = JSON.stringify({
    patch: [{ path: 'b.png', url: 'x' }],
    test_patch: [{ path: 'a/b/c.png' }, { url: 'y' }],
  })
  const rows = SCRIPTS.flatMap((script, index) =>
    [null, assets].map((imageAssets) => ({
      ...row('psf/requests', '1', 0),
      instance_id: `psf__requests-${index}`,
      image: `swebench/sweb.eval.x86_64.psf_1776_requests-${index}:latest`,
      eval_script: script,
      log_parser: 'parse_log_pytest',
      eval_type: 'pass_and_fail',
      image_assets: imageAssets,
    })),
  )
  const { differences, scripts } = await compareScripts('swebench-5', rows)
  assert.deepEqual(differences, [])
  assert.equal(scripts, rows.length)
})

test('fork-4.0.3: scripts equal the harness’s with an installation, without one, and for a repository with its own rule', {
  skip: missingSource('fork-4.0.3') ?? false,
}, async () => {
  const config = {
    python: '3.9',
    install: 'pip install -e . && true',
    test_cmd: 'pytest -rA',
    log_parser: 'parse_log_pytest',
  }
  const { install: _none, ...bare } = config
  const rows = ['owner/thing', 'django/django'].flatMap((repo) =>
    [config, bare].flatMap((installConfig, variant) =>
      TEST_PATCHES.map((_, index) => ({ ...row(repo, `0.${variant}`, index), install_config: installConfig })),
    ),
  )
  const { differences, scripts } = await compareScripts('fork-4.0.3', rows)
  assert.deepEqual(differences.slice(0, 3), [])
  assert.equal(scripts, rows.length)
})

test('the committed test commands equal those of the package', { skip: missing }, async () => {
  const { sha256, commands } = await readCommands()
  assert.deepEqual([...SWEBENCH_4_1_COMMANDS], commands)
  const source = await readFile(new URL('../../src/grading/profiles/swebench-4.1-commands.ts', import.meta.url), 'utf8')
  assert.ok(source.includes(sha256))
})
