/** The Python half of `npm test`: what pytest may end with 0 for, although something failed or never ran. On the real pytest. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { python, withoutPython } from '../python.ts'
import { judgePytest } from './judge-pytest.ts'
import { runTrainerTests } from './run-trainer-tests.ts'
import { type RunSummary, summarise } from './summarise.ts'

const PASSES = 'def test_passes():\n    pass\n'

/** Bodies of test files that must fail the run, and what is said about each. */
const RED: Record<string, [code: string, said: RegExp]> = {
  'a test fails': [`${PASSES}\ndef test_bad():\n    assert False, "bad"\n`, /test_bad/],
  'pytest.exit ends the session with 0': [
    `${PASSES}\nimport pytest\ndef test_ends():\n    pytest.exit("enough", returncode=0)\ndef test_never():\n    assert False\n`,
    /test_never: did not finish/,
  ],
  'os._exit(0) ends the process': [
    `${PASSES}\nimport os\ndef test_ends():\n    os._exit(0)\n`,
    /ended before its session/,
  ],
  'sys.exit(0) ends a test': [`${PASSES}\nimport sys\ndef test_ends():\n    sys.exit(0)\n`, /SystemExit/],
  'sys.exit(0) ends a module while it is loaded': [
    `import sys\n${PASSES}\nsys.exit(0)\n`,
    /SystemExit: 0|collected no test/,
  ],
  'the tear-down of a fixture fails': [
    'import pytest\n@pytest.fixture\ndef x():\n    yield 1\n    raise ValueError("down")\ndef test_passes(x):\n    pass\n',
    /teardown: .*|ValueError: down/,
  ],
  'the set-up of a fixture fails': [
    'import pytest\n@pytest.fixture\ndef x():\n    raise ValueError("up")\ndef test_passes(x):\n    pass\n',
    /setup: /,
  ],
  'a thread fails': [
    'import threading\ndef test_passes():\n    t = threading.Thread(target=lambda: 1 / 0)\n    t.start()\n    t.join()\n',
    /ZeroDivisionError|PytestUnhandledThreadException/,
  ],
  'an import is missing': [`import not_there\n${PASSES}`, /collect: /],
  'a class of tests cannot be collected': [
    `${PASSES}\nclass TestX:\n    def __init__(self):\n        pass\n    def test_y(self):\n        assert False\n`,
    /cannot collect test class/,
  ],
  'no test at all': ['x = 1\n', /collected no test/],
  'a skip that was not reviewed': [
    `${PASSES}\nimport pytest\ndef test_s():\n    pytest.skip("no time")\n`,
    /test_s # no time: this skip is not in/,
  ],
  'a module skips itself': [
    `import pytest\npytest.skip("no time", allow_module_level=True)\n${PASSES}`,
    /# no time: this skip/,
  ],
  'a test is expected to fail': [
    `${PASSES}\nimport pytest\n@pytest.mark.xfail(reason="later")\ndef test_x():\n    assert False\n`,
    /test_x # xfail: later: this skip/,
  ],
  'a test that is expected to fail passes': [
    `${PASSES}\nimport pytest\n@pytest.mark.xfail(reason="later")\ndef test_x():\n    pass\n`,
    /test_x # xfail: later: this skip/,
  ],
  'a test is deselected by a marker': [
    `${PASSES}\nimport pytest\n@pytest.mark.slow\ndef test_x():\n    assert False\n`,
    /test_x # deselected, marked slow: this skip/,
  ],
  'an async test is not awaited': [`${PASSES}\nasync def test_a():\n    assert False\n`, /test_a/],
}

describe('a run of pytest fails when', { skip: withoutPython, concurrency: 2 }, () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-pytest-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  async function play(name: string, code: string): Promise<RunSummary> {
    const root = join(folder, name)
    await mkdir(join(root, 'trainer/tests'), { recursive: true })
    await writeFile(join(root, 'trainer/tests/test_case.py'), code)
    const quiet = { print: () => undefined }
    const config = join(import.meta.dirname, '../../../trainer/pyproject.toml')
    return summarise(
      await runTrainerTests({ root, config, scratch: root, python: python ?? '', timeoutMs: 120_000, ...quiet }),
      [],
    )
  }

  for (const [index, [title, [code, said]]] of Object.entries(RED).entries()) {
    test(title, async () => {
      const { exitCode, text } = await play(`case-${index}`, code)
      assert.equal(exitCode, 1)
      assert.match(text, said)
      assert.match(text.split('\n').at(-1) ?? '', /^\d+ passed, [1-9]\d* failed$/)
    })
  }

  test('nothing, since a run that passes ends with 0', async () => {
    const { exitCode, text } = await play('good', PASSES)
    assert.deepEqual([exitCode, text.split('\n').at(-1)], [0, '1 passed, 0 failed'])
  })
})

test('a time-out and an exit status after the last test are failures', () => {
  const events = [
    { type: 'collected' as const, tests: ['tests/test_a.py::test_b'] },
    { type: 'passed' as const, test: 'tests/test_a.py::test_b', when: 'call', seconds: 1 },
    { type: 'passed' as const, test: 'tests/test_a.py::test_b', when: 'teardown', seconds: 1 },
    { type: 'end' as const, status: 0 },
  ]
  const failuresOf = (end: { exitCode: number | null; timedOut: boolean }) =>
    judgePytest({ events, end: { ...end, tail: '' } }).flatMap(({ failures }) => failures.map(({ error }) => error))
  assert.deepEqual(failuresOf({ exitCode: 0, timedOut: false }), [])
  assert.match(failuresOf({ exitCode: 3, timedOut: false }).join(), /ended with 3 after its tests had passed/)
  assert.match(failuresOf({ exitCode: null, timedOut: true }).join(), /did not end in time/)
})
