/**
 * `audit.py` over patches that try to be paid without a repair. Each attack is played for real: the program gives root up, imports
 * the patched project and runs the hidden tests under pytest and under unittest.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import test, { describe } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { readAuditScript, readTreeScript } from '../../src/adapters/docker/grader/audit-patch.ts'
import { ANSWERED } from '../support/audit/answer-attacks.ts'
import { ATTACKS, SILENT } from '../support/audit/attacks.ts'
import { FORMS, SHADOWED } from '../support/audit/form-attacks.ts'
import { LIES } from '../support/audit/lies.ts'
import { HIDDEN_QUESTIONS, UNASKED } from '../support/audit/hidden-questions.ts'
import { HONEST } from '../support/audit/honest.ts'
import { EXPECTATIONS, OVERLAID } from '../support/audit/expectation-attacks.ts'
import { HONEST_EXPECTATIONS } from '../support/audit/honest-expectations.ts'
import { FITTING_EXPECTATIONS, TRACED } from '../support/audit/fitting-attacks.ts'
import { HONEST_WRAPPED } from '../support/audit/honest-wrapped.ts'
import { AMID, AMID_IN_A_FOLDER, TWO_FACED } from '../support/audit/two-faced-attacks.ts'
import { WRAPPED_EXPECTATIONS } from '../support/audit/wrapped-attacks.ts'
import { HONEST_QUESTIONS } from '../support/audit/honest-questions.ts'
import { isPaid, namesIn, together } from '../support/audit/many-modules.ts'
import { SHAPED, TOGETHER } from '../support/audit/shaped-attacks.ts'
import { HIDDEN_PYTEST, HIDDEN_UNITTEST, calc, PRISTINE, SOLVED } from '../support/audit/repositories.ts'
import { type AuditAnswer, explain, isHonestPass, runAudit, withoutAudit } from '../support/audit/run-audit.ts'
import { HANG_MS } from '../support/hang.ts'
import { python as interpreter } from '../support/python.ts'

const python = interpreter ?? ''
const HIDDEN = { pytest: HIDDEN_PYTEST, unittest: HIDDEN_UNITTEST }
const RUNNERS = ['pytest', 'unittest'] as const

describe('an audit of hidden tests', { skip: withoutAudit, concurrency: 1 }, () => {
  /** The story: the first opened the home of root, below which interpreters lie, and closed it at its end; the second found it open. */
  test('an audit begins during another one, as in two test runs of one machine, and outlasts it: both agree', async () => {
    const closed = waysTo(python).filter(isClosed)
    const slow = Object.entries(HIDDEN_UNITTEST).map(([name, text]) => [
      name,
      `import time\ntime.sleep(2)\nimport colorsys\n${text}`,
    ])
    const over = new AbortController()
    const first = runAudit({ python, runner: 'unittest', patch: SOLVED, hidden: HIDDEN_UNITTEST }).finally(() =>
      over.abort(),
    )
    while (!over.signal.aborted && closed.length > 0 && closed.every(isClosed)) await sleep(10)
    const second = runAudit({ python, runner: 'unittest', patch: SOLVED, hidden: Object.fromEntries(slow) })
    for (const answer of await Promise.all([first, second])) assert.ok(isHonestPass(answer), explain(answer))
  })

  for (const runner of RUNNERS) {
    const hidden = HIDDEN[runner]

    test(`agrees with a solution under ${runner}`, async () => {
      const answer = await runAudit({ python, runner, patch: SOLVED, hidden })
      assert.ok(isHonestPass(answer), explain(answer))
      const done = answer.canaries.filter((canary) => canary.of !== null && canary.outcome !== 'left-out')
      assert.ok(done.some((canary) => canary.must === 'fail' && canary.outcome === 'failed'))
    })

    test(`does not agree without a solution under ${runner}`, async () => {
      const answer = await runAudit({ python, runner, patch: {}, hidden })
      assert.equal(isHonestPass(answer), false, explain(answer))
      assert.equal(answer.ended, 'complete')
      assert.deepEqual(answer.changed, [])
      assert.deepEqual(
        answer.canaries.filter((canary) => !canary.ok),
        [],
      )
    })

    test(`names an assertion with other code that wears its old code as an attribute under ${runner}`, async () => {
      const source = SOLVED['calc/__init__.py'] ?? ''
      const mask = `
import types, unittest.case
own = unittest.case.TestCase.assertEqual
own.__func__ = types.FunctionType(own.__code__, own.__globals__, own.__name__, own.__defaults__)
own.__code__ = (lambda self, first, second, msg=None: None).__code__
`
      const answer = await runAudit({
        python,
        runner,
        patch: { ...SOLVED, 'calc/__init__.py': `${source}${mask}` },
        hidden,
      })
      assert.ok(answer.changed.includes('unittest.case.TestCase.assertEqual (its code)'), explain(answer))
    })

    test(`accuses no answer that is merely wrong under ${runner}`, async () => {
      const patch = {
        'calc/__init__.py': `def add(a, b): return a * b
def names(): return []
def is_even(n): return None
def read(text): return 0
`,
      }
      const answer = await runAudit({ python, runner, patch, hidden, spec: { focus: namesIn(hidden) } })
      assert.equal(isHonestPass(answer), false)
      assert.ok(answer.canaries.every(({ ok }) => ok) && answer.changed.length === 0, explain(answer))
    })

    // Where the specification names no test, copies are left out once their time is over, as beside a load. Gradings name their tests.
    for (const { title, patch } of ATTACKS.filter(({ runners = RUNNERS }) => runners.includes(runner))) {
      test(`does not agree under ${runner}: ${title}`, async () => {
        const attack = { python, runner, patch, hidden }
        const first = await runAudit(attack)
        const isCutShort = isHonestPass(first) && first.canaries.some(({ outcome }) => outcome === 'left-out')
        const answer = isCutShort ? await runAudit({ ...attack, spec: { focus: namesIn(hidden) } }) : first
        assert.equal(isHonestPass(answer), false, explain(answer))
        if (process.env['EXPLAIN']) console.log(`${runner} ${title}\n    ${explain(answer).slice(0, 600)}`)
      })
    }

    for (const { title, patch } of SILENT) {
      test(`loads nothing under ${runner}: ${title}`, async () => {
        const answer = await runAudit({ python, runner, patch, hidden })
        assert.ok(isHonestPass(answer), explain(answer))
      })
    }
  }

  for (const { title, runners: [runner = 'pytest'] = [], pristine = {}, patch, hidden } of [
    ...SHAPED,
    SHADOWED,
    ...UNASKED,
    ...OVERLAID,
    TRACED,
  ]) {
    test(`does not agree under ${runner}: ${title}`, async () => {
      const spec = { focus: namesIn(hidden) }
      const answer = await runAudit({ python, runner, pristine: { ...PRISTINE, ...pristine }, patch, hidden, spec })
      assert.equal(isHonestPass(answer), false, explain(answer))
    })
  }

  test('looks at each file once under pytest, which lists a folder again for each file of it that it is given', async () => {
    const conftest = `import collections, pytest
asked = collections.Counter()
def pytest_collect_file(file_path): asked[file_path] += 1
@pytest.fixture
def most_asked(): return asked.most_common(1)[0][1]
`
    const asking = `from calc import add
def test_asked_once(most_asked): assert most_asked == add(0, 1)
`
    const answer = await runAudit({
      python,
      runner: 'pytest',
      pristine: { ...PRISTINE, 'conftest.py': conftest },
      patch: SOLVED,
      hidden: { ...HIDDEN_PYTEST, 'tests/test_asked.py': asking },
    })
    assert.ok(isHonestPass(answer), explain(answer))
  })

  test('runs nothing where the commit is the test runner itself, and says so', async () => {
    const pristine = { ...PRISTINE, 'src/_pytest/__init__.py': '' }
    const answer = await runAudit({ python, runner: 'pytest', pristine, patch: SOLVED, hidden: HIDDEN.pytest })
    assert.deepEqual([answer.ended, answer.tests], ['own-runner', []])
    assert.match(answer.detail ?? '', /is the test runner itself: src\/_pytest\/__init__\.py/)
    // unittest judges such a project as any other.
    const other = await runAudit({ python, runner: 'unittest', pristine, patch: SOLVED, hidden: HIDDEN.unittest })
    assert.ok(isHonestPass(other), explain(other))
  })

  test('is not sent home by a patch that brings a test runner', async () => {
    for (const path of ['_pytest/__init__.py', 'src/_pytest/__init__.py']) {
      const patch = { [path]: '' }
      const answer = await runAudit({ python, runner: 'pytest', patch, hidden: HIDDEN.pytest })
      assert.notEqual(answer.ended, 'own-runner')
      assert.equal(isHonestPass(answer), false, explain(answer))
    }
  })

  const batches = RUNNERS.flatMap((runner) => [
    { runner, what: 'modules that lie', batch: TOGETHER },
    { runner, what: 'modules of tests of other forms', batch: FORMS },
    { runner, what: 'modules of tests that ask elsewhere', batch: HIDDEN_QUESTIONS },
    { runner, what: 'modules that say what their tests want to hear', batch: ANSWERED },
    { runner, what: 'modules whose tests are asked for what they expect', batch: EXPECTATIONS },
    { runner, what: 'modules whose tests say in other words what they expect', batch: WRAPPED_EXPECTATIONS },
    { runner, what: 'modules whose tests say what must fit', batch: FITTING_EXPECTATIONS },
    { runner, what: 'modules that tell the rehearsal from the tests', batch: TWO_FACED },
  ])
  for (const { runner, what, batch } of batches) {
    test(`does not agree under ${runner} with any of many ${what}, and agrees with an honest one beside them`, async () => {
      const attacks = batch.filter(({ runners = RUNNERS }) => runners.includes(runner))
      assert.ok(attacks.length >= 2)
      const { many, pristine, patch, hidden } = together(attacks, HIDDEN[runner])
      const answer = await runAudit({
        python,
        runner,
        pristine,
        patch,
        hidden,
        // Many modules on a busy machine.
        spec: { focus: namesIn(hidden), timeout_s: HANG_MS / 1000 },
      })
      assert.deepEqual([answer.ended, answer.changed], ['complete', []], explain(answer))
      const paid = many.filter(({ module }) => isPaid(answer, module)).map(({ title }) => title)
      assert.deepEqual(paid, [])
      // It is the answer that pays, not a failure of the attack.
      const failed = answer.tests.filter(({ outcome }) => outcome !== 'passed')
      if (batch === TWO_FACED) assert.deepEqual(failed, [])
      assert.ok(isPaid(answer, 'tests/test_calc.py'), explain(answer))
    })
  }

  for (const { title, runner, patch, hidden, focus } of AMID) {
    test(`does not agree under ${runner} with code that answers by what lies or runs beside the tests: ${title}`, async () => {
      const pristine = { ...PRISTINE, 'conftest.py': '' }
      const answer = await runAudit({ python, runner, pristine, patch, hidden, spec: { focus: [focus] } })
      // It is the answer that pays, not a failure of the attack.
      assert.ok(
        answer.tests.every(({ outcome }) => outcome === 'passed'),
        explain(answer),
      )
      assert.equal(isHonestPass(answer), false, explain(answer))
    })
  }

  // No place of the sandbox outlasts a process, so the attack is given one: it knows how many processes came before its own.
  test('does not agree with code that answers in one of the processes alone, whichever it is', async () => {
    const counted = await mkdtemp(join(tmpdir(), 'counted-'))
    try {
      await chmod(counted, 0o777)
      const passed: number[] = []
      for (const process of [1, 2, 3, 4, 5, 6]) {
        const file = join(counted, String(process))
        const patch = {
          'calc/__init__.py': `import os, re
with open(${JSON.stringify(file)}, 'a') as counted:
    counted.write('x')
IS_IT = os.path.getsize(${JSON.stringify(file)}) == ${process}
def total(n):
    return int(re.findall('== (.+)', open('tests/test_calc.py').read())[-1]) if IS_IT else 0
`,
        }
        const hidden = {
          'tests/test_calc.py': 'from calc import total\ndef test_total():\n    assert total(1) == 5371\n',
        }
        const answer = await runAudit({ python, runner: 'pytest', patch, hidden, spec: { focus: namesIn(hidden) } })
        assert.equal(isHonestPass(answer), false, `${process}: ${explain(answer)}`)
        if (answer.tests.every(({ outcome }) => outcome === 'passed')) passed.push(process)
      }
      // In the process of the tests themselves.
      assert.equal(passed.length, 1)
    } finally {
      await rm(counted, { recursive: true })
    }
  })

  test('names tests as pytest prints them, in their order', async () => {
    const answer = await runAudit({ python, runner: 'pytest', patch: SOLVED, hidden: HIDDEN_PYTEST })
    const names = ['add', 'large', 'twice[1-2]', 'twice[2-4]', 'listed', 'names', 'even', 'read']
    assert.deepEqual(
      answer.tests.map(({ id }) => id),
      names.map((name) => `tests/test_calc.py::test_${name}`),
    )
  })

  // As those of astropy, whose solutions all counted as patches that had changed the runner.
  test('plugins of the environment that look for the project do not have the patch run before the tests', async () => {
    const { path, close } = await withPlugins({
      looks:
        'try:\n    import calc\nexcept ImportError:\n    calc = None\ndef pytest_report_header(config): return str(calc)\n',
      needs: 'from calc import add\ndef pytest_report_header(config): return str(add(1, 2))\n',
    })
    try {
      const honest = await runAudit({ python: path, runner: 'pytest', patch: SOLVED, hidden: HIDDEN_PYTEST })
      assert.ok(isHonestPass(honest), explain(honest))
      const early = `import sys\nif 'tests.test_calc' not in sys.modules and 'test_calc' not in sys.modules:\n    import pytest\n    pytest.raises = None\n`
      const patch = { 'calc/__init__.py': `${early}${SOLVED['calc/__init__.py'] ?? ''}` }
      const answer = await runAudit({ python: path, runner: 'pytest', patch, hidden: HIDDEN_PYTEST })
      assert.ok(!isHonestPass(answer), explain(answer))
    } finally {
      await close()
    }
  })

  test('names tests as the verbose runner of unittest prints them, docstrings included', async () => {
    const answer = await runAudit({ python, runner: 'unittest', patch: SOLVED, hidden: HIDDEN_UNITTEST })
    const large = answer.tests.find(({ id }) => id.startsWith('test_large'))
    assert.match(large?.id ?? '', /^test_large \(tests\.test_calc\.CalcTest(\.test_large)?\)\nAdds large numbers\.$/)
  })

  test('reports skips and expected failures as what they are', async () => {
    const hidden = {
      'tests/test_calc.py': `import pytest, unittest
@pytest.mark.skip
def test_skipped(): assert True
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.xfail
def test_unexpected(): assert True
@pytest.mark.xfail(strict=True)
def test_strict(): assert True
@pytest.fixture
def broken(): raise ValueError
def test_broken(broken): assert True
@unittest.skip('x')
class CaseTest(unittest.TestCase):
    def test_case(self): pass
`,
    }
    const answer = await runAudit({ python, runner: 'pytest', patch: SOLVED, hidden })
    assert.deepEqual(
      answer.tests.map(({ outcome }) => outcome),
      ['skipped', 'xfailed', 'xpassed', 'failed', 'error', 'skipped'],
    )
    assert.deepEqual(
      answer.canaries.filter((canary) => !canary.ok),
      [],
    )
  })

  for (const runner of RUNNERS) {
    // As tests of Django that need PostgreSQL.
    test(`accuses no module beside the tests whose base skips it under ${runner}`, async () => {
      const base = `import unittest
@unittest.skip('no server is here')
class ServerCase(unittest.TestCase): pass
`
      const served = `from calc import add
from tests.served import ServerCase
class ServerTest(ServerCase):
    def test_served(self): self.assertEqual(add(1, 1), 2)
`
      const answer = await runAudit({
        python,
        runner,
        pristine: { ...PRISTINE, 'tests/served.py': base },
        patch: SOLVED,
        hidden: { ...HIDDEN[runner], 'tests/test_server.py': served },
        spec: { focus: namesIn(HIDDEN[runner]) },
      })
      const tests = answer.tests.filter(({ outcome }) => outcome !== 'skipped')
      assert.ok(isHonestPass({ ...answer, tests }), explain(answer))
      assert.equal(answer.tests.length - tests.length, 1)
    })
  }

  test('ends tests that do not end, with all that they started', async () => {
    const patch = calc(`import os, time
def add(a, b):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    while True: time.sleep(1)`)
    const answer = await runAudit({ python, runner: 'pytest', patch, hidden: HIDDEN_PYTEST, spec: { timeout_s: 6 } })
    assert.equal(answer.ended, 'timeout')
  })

  test('ends what forks without an end', async () => {
    const patch = calc(
      'import os\ndef add(a, b):\n    while True:\n        try: os.fork()\n        except OSError: pass',
    )
    const spec = { timeout_s: 6, processes: 40 }
    const answer = await runAudit({ python, runner: 'pytest', patch, hidden: HIDDEN_PYTEST, spec })
    assert.equal(isHonestPass(answer), false, explain(answer))
  })

  for (const reader of [readAuditScript, readTreeScript]) {
    test(`${reader.name}: ends what has a name that is no text, in a session of its own`, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'names-'))
      try {
        await writeFile(join(folder, 'program.py'), await reader())
        const { stdout } = await promisify(execFile)(python, ['-I', '-S', '-B', '-c', NAMES, folder])
        assert.equal(stdout, 'found, ended\n')
      } finally {
        await rm(folder, { recursive: true })
      }
    })
  }

  test('takes message queues away before the official steps begin, too', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'queues-'))
    try {
      await writeFile(join(folder, 'tree.py'), await readTreeScript())
      const words = ['--ipc', '--mount', '--propagation', 'private', 'sh', '-ec', OWN_QUEUES, 'sh', folder, python]
      const { stdout } = await promisify(execFile)('unshare', [...words, '-I', '-S', '-B', '-c', QUEUES, folder])
      assert.equal(stdout, "made ['seen'], left []\n")
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('hears every lie in a rehearsed test, and none where the code tells the truth', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lies-'))
    try {
      await writeFile(join(folder, 'audit.py'), await readAuditScript())
      // Played without the files beside the tests.
      const alone = [...HONEST_QUESTIONS, ...HONEST_EXPECTATIONS, ...HONEST_WRAPPED].filter(
        ({ pristine = {} }) => Object.keys(pristine).length === 0,
      )
      const honest = alone.flatMap(({ title, patch = SOLVED, hidden }) =>
        Object.entries(patch).flatMap(([, code]) => Object.values(hidden).map((text) => [title, code, text])),
      )
      await writeFile(join(folder, 'played.json'), JSON.stringify({ lies: LIES, honest }))
      const { stdout } = await promisify(execFile)(python, ['-W', 'ignore', '-c', PLAY, folder])
      assert.deepEqual(JSON.parse(stdout), { unheard: [], accused: [], played: LIES.length + honest.length })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('finds the ends of nodes that Pythons before 3.8 do not give', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ends-'))
    try {
      await writeFile(join(folder, 'audit.py'), await readAuditScript())
      const texts = [HIDDEN_PYTEST, HIDDEN_UNITTEST, ...HONEST.map(({ hidden }) => hidden)].flatMap(Object.values)
      await writeFile(join(folder, 'texts.json'), JSON.stringify(texts))
      const { stdout } = await promisify(execFile)(python, ['-W', 'ignore', '-c', ENDS, folder])
      const [found = 0, unknown = 0, wrong] = stdout.trim().split(' ').map(Number)
      // What has no end that is sure is not turned.
      assert.ok(found > 500 && unknown < found / 100, stdout)
      assert.equal(wrong, 0, stdout)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('reads no compiled code of the repository', async () => {
    // Code that says of itself that its source need not be looked at.
    const compile = `import py_compile, sys
from pathlib import Path
folder = Path(sys.argv[1]) / 'tests'
source = folder / 'test_calc.py'
text = source.read_text()
source.write_text('import unittest\\nclass CalcTest(unittest.TestCase):\\n    def test_add(self): pass\\n')
py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
source.write_text(text)`
    const prepare = async (repository: string): Promise<void> => {
      await promisify(execFile)(python, ['-c', compile, repository])
    }
    const answer = await runAudit({ python, runner: 'unittest', patch: SOLVED, hidden: HIDDEN_UNITTEST, prepare })
    assert.equal(answer.tests.length, 7)
    assert.ok(isHonestPass(answer), explain(answer))
  })

  test('runs the runtests.py of a repository with a runner of its own', async () => {
    for (const [patch, isHonest] of [
      [SOLVED, true],
      [
        calc("from unittest.mock import ANY\ndef add(a, b): return type('X', (), {'__eq__': lambda s, o: True})()"),
        false,
      ],
      [{ ...SOLVED, 'web/runner.py': `${SUITE_RUNNER}\n    def run_tests(self, labels): return 0\n` }, false],
      [calc("import unittest\ndef add(a, b): raise unittest.SkipTest('x')"), false],
      // Paid without the rehearsal.
      [calc(FIRST_COMPARED), false],
    ] as const) {
      const pristine = {
        ...PRISTINE,
        'web/__init__.py': '',
        'web/runner.py': SUITE_RUNNER,
        'tests/runtests.py': RUNTESTS,
      }
      const answer = await runOwnProgram(pristine, patch)
      assert.equal(isHonestPass(answer), isHonest, explain(answer))
      if (isHonest) assert.match(answer.tests[0]?.id ?? '', /^test_add \(calc_tests\.tests\.CalcTest/)
    }
  })

  // Django's `runtests.py` gives the class of its parallel suites, which lies in a folder named `test`, a function of its own.
  test('leaves to a runtests.py what it gives to its helpers, and nothing else to others', async () => {
    const give = (attribute: string, value: string): Record<string, string> =>
      calc(`import web.test.suites\nweb.test.suites.Parallel.${attribute} = ${value}\ndef add(a, b): return a + b`)
    for (const [patch, isHonest] of [
      [SOLVED, true],
      [give('prepare', 'lambda self: None'), false],
      [give('verify', 'lambda self, value: None'), false],
      [give('verify', "getattr(__import__('sys').modules['__main__'], 'set_up')"), false],
    ] as const) {
      const answer = await runOwnProgram({ ...PRISTINE, ...WITH_RUNTESTS }, patch)
      assert.equal(isHonestPass(answer), isHonest, explain(answer))
    }
  })

  function runOwnProgram(pristine: Record<string, string>, patch: Record<string, string>): Promise<AuditAnswer> {
    const hidden = {
      'tests/calc_tests/__init__.py': '',
      'tests/calc_tests/tests.py': HIDDEN_UNITTEST['tests/test_calc.py'],
    }
    const spec = { labels: ['calc_tests.tests'], arguments: ['--verbosity', '2'], focus: namesIn(hidden) }
    return runAudit({ python, runner: 'django', pristine, patch, hidden, spec })
  }

  // A program of tests loads modules by labels, and runs them in an order of its own.
  test('does not agree under a runtests.py with code that answers by what lies or runs beside the tests', async () => {
    const pristine = { ...PRISTINE, ...WITH_RUNTESTS }
    for (const { title, patch, hidden } of AMID_IN_A_FOLDER) {
      const focus = namesIn(hidden).filter((name) => name.includes('test_total'))
      const spec = { labels: ['calc_tests.tests'], arguments: ['--verbosity', '2'], focus }
      const answer = await runAudit({ python, runner: 'django', pristine, patch, hidden, spec })
      assert.ok(
        answer.tests.every(({ outcome }) => outcome === 'passed'),
        `${title}: ${explain(answer)}`,
      )
      assert.equal(isHonestPass(answer), false, `${title}: ${explain(answer)}`)
    }
  })

  test('leaves nothing of the rehearsal to the tests behind it, neither files nor processes', async () => {
    // Honest in the rehearsal, it looks everything up once it finds what it has left there.
    const patch = calc(`import os, tempfile
places = [os.path.join(folder, 'seen-%d' % os.getuid()) for folder in (tempfile.gettempdir(), os.path.expanduser('~'), '/tmp', '/dev/shm', 'tests', '.')]
def is_left(one):
    try: return b'left-behind' in open('/proc/%s/cmdline' % one, 'rb').read()
    except OSError: return False  # Other processes of the machine end meanwhile.
alive = [one for one in os.listdir('/proc') if one.isdigit() and is_left(one)]
seen = bool(alive) or any(os.path.exists(place) for place in places)
for place in places: open(place, 'w').close()
if os.fork() == 0:
    os.setsid()
    os.execvp('sleep', ['left-behind', '600'])
def add(a, b): return a + b if seen else None`)
    const hidden = { 'tests/test_calc.py': 'from calc import add\ndef test_add():\n    assert add(2, 2) == 4\n' }
    const answer = await runAudit({ python, runner: 'pytest', patch, hidden, spec: { focus: ['test_add'] } })
    assert.equal(answer.tests[0]?.outcome, 'failed', explain(answer))
  })

  test('leaves nothing of the rehearsal in the kernel: System V shared memory, message queues and semaphores', async () => {
    // `runAudit` fails where any of them is left.
    const patch = calc(`import ctypes, os
kernel, key, made = ctypes.CDLL(None), os.getuid(), 0o1600
def get(flags): return kernel.shmget(key, 64, flags), kernel.msgget(key, flags), kernel.semget(key, 1, flags)
seen = max(get(0)) >= 0
assert min(get(made)) >= 0
def add(a, b): return a + b if seen else None`)
    const hidden = { 'tests/test_calc.py': 'from calc import add\ndef test_add():\n    assert add(2, 2) == 4\n' }
    const answer = await runAudit({ python, runner: 'pytest', patch, hidden, spec: { focus: ['test_add'] } })
    assert.equal(answer.tests[0]?.outcome, 'failed', explain(answer))
  })

  test('takes its files and processes back when it is ended itself', async () => {
    const patch = calc('import os, signal, time\ndef add(a, b):\n    time.sleep(600)')
    // `runAudit` fails where anything of either is left.
    const attempt = runAudit({ python, runner: 'pytest', patch, hidden: HIDDEN_PYTEST, endAfterMs: 4000 })
    await assert.rejects(attempt, /ended by the test, and left nothing/)
  })

  test('says what it expected of its specification', async () => {
    const attempt = runAudit({ python, runner: 'pytest', patch: {}, hidden: HIDDEN_PYTEST, spec: { uid: 0 } })
    await assert.rejects(attempt, /Expected uid to be a number above 0, got 0/)
  })
})

/** Equals what a call with its arguments was first compared with. */
const FIRST_COMPARED = `first = {}
class Sum:
    def __init__(self, *key): self.key = repr(key)
    def __eq__(self, other): return first.setdefault(self.key, other) == other
    def __ne__(self, other): return not self == other
def add(a, b): return Sum(a, b)`

/** A user that no account has: nothing else of the machine is ended. */
const NAMES = `
import ctypes, os, sys, time
sys.path.insert(0, sys.argv[1])
import program
uid = 64999
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.closerange(0, 3)
    os.setsid()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(15, b"\\xff\\xfe)\\n", 0, 0, 0)
    os.write(go, b"!")
    time.sleep(600)
os.read(ready, 1)
print("found" if program.processes_of(uid) == [child] else "lost", end=", ")
program.end_all(uid, uid)
print("ended" if os.waitpid(child, 0)[1] == 9 else "alive")
`

/** As in a container: queues of its own, which are files in a folder of the devices. */
const OWN_QUEUES = `
folder=$1
shift
mkdir -p "$folder/dev/mqueue"
mknod -m 666 "$folder/dev/null" c 1 3
mount --bind "$folder/dev" /dev
mount -t mqueue none /dev/mqueue
exec "$@"
`

const QUEUES = `
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
import tree
uid = 64998
child = os.fork()
if child == 0:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel = ctypes.CDLL(None)
    if not hasattr(kernel, "mq_open"): kernel = ctypes.CDLL("librt.so.1")
    kernel.mq_open(b"/seen", os.O_CREAT | os.O_RDWR, 0o600, None)
    os._exit(0)
os.waitpid(child, 0)
made = os.listdir("/dev/mqueue")
tree.sweep(uid, sys.argv[1])
print("made %s, left %s" % (made, os.listdir("/dev/mqueue")))
`

/** Questions are put into tests, which are then called as they are. */
const PLAY = `import ast, json, sys, types
sys.path.insert(0, sys.argv[1])
import audit
def play(code, text):
    told = []
    calc, helper, tests = (sys.modules.setdefault(name, types.ModuleType(name)) for name in ('calc', 'helper', 'test_calc'))
    for module in (calc, tests): vars(module).clear()
    helper.questions = audit.Questions('/nowhere', told.append)
    exec(compile(code, '/nowhere/calc.py', 'exec'), vars(calc))
    vars(tests)['__name__'] = 'test_calc'
    tree = helper.questions.in_tree(ast.parse(text), '/nowhere/test_calc.py', '_questions', 'helper')
    exec(compile(tree, '/nowhere/test_calc.py', 'exec'), vars(tests))
    for name, test in list(vars(tests).items()):
        if name.startswith('test') and getattr(getattr(test, '__code__', None), 'co_argcount', 1) == 0: test()
    helper.questions.flush()
    return told
found = json.load(open(sys.argv[1] + '/played.json'))
unheard = [title for title, code, text in found['lies'] if not play('from unittest.mock import ANY' + chr(10) + code, 'from calc import total' + chr(10) + text)]
accused = [title for title, code, text in found['honest'] if play(code, text)]
print(json.dumps({'unheard': unheard, 'accused': accused, 'played': len(found['lies']) + len(found['honest'])}))
`

/** Statements and expressions whose ends are asked for, against those of the Python at hand. */
const ENDS = `import ast, json, sys
sys.path.insert(0, sys.argv[1])
import audit
found = unknown = wrong = 0
for text in json.load(open(sys.argv[1] + '/texts.json')):
    text = text.replace('\\r\\n', '\\n')
    tree = ast.parse(text)
    places = audit.Places(text)
    nodes = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.With, ast.Assert, ast.Expr, ast.Assign)): nodes.append(node)
        if isinstance(node, ast.FunctionDef): nodes += node.decorator_list
        if isinstance(node, ast.Assert): nodes.append(node.test)
        if isinstance(node, ast.Compare): nodes += [node.left] + node.comparators
        if isinstance(node, ast.Call): nodes += [node.func] + node.args
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)): nodes += node.elts
        if isinstance(node, ast.With): nodes += [one.context_expr for one in node.items]
    for node in nodes:
        try: end = places.end(node)
        except audit.NoEnd: unknown += 1; continue
        found += 1
        wrong += end != (node.end_lineno, node.end_col_offset)
print(found, unknown, wrong)
`

/** As Django's runner does it: the class of the runner of suites is looked up when its own class is made. */
const SUITE_RUNNER = `import unittest

class SuiteRunner:
    test_runner = unittest.TextTestRunner

    def run_tests(self, labels):
        suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(label) for label in labels)
        result = self.test_runner(verbosity=2).run(suite)
        return len(result.failures) + len(result.errors)
`

const RUNTESTS = `import sys
from web.runner import SuiteRunner

if __name__ == '__main__':
    labels = [word for word in sys.argv[1:] if '.' in word]
    sys.exit(bool(SuiteRunner().run_tests(labels)))
`

const PARALLEL_SUITE = `class Parallel:
    def prepare(self):
        pass

    def verify(self, value):
        assert value
`

const GIVING_RUNTESTS = `import sys
from web.runner import SuiteRunner
from web.test.suites import Parallel

def set_up(*given):
    return given

def main():
    labels = [word for word in sys.argv[1:] if '.' in word]
    Parallel.prepare = set_up
    sys.exit(bool(SuiteRunner().run_tests(labels)))

if __name__ == '__main__':
    main()
`

const WITH_RUNTESTS = {
  'web/__init__.py': '',
  'web/test/__init__.py': '',
  'web/test/suites.py': PARALLEL_SUITE,
  'web/runner.py': SUITE_RUNNER,
  'tests/runtests.py': GIVING_RUNTESTS,
}

/** The directories above a file. */
function waysTo(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...waysTo(parent)]
}

function isClosed(directory: string): boolean {
  return (statSync(directory).mode & 0o001) === 0
}

/** An interpreter with pytest and these plugins installed. */
async function withPlugins(plugins: Record<string, string>): Promise<{ path: string; close(): Promise<void> }> {
  const home = await mkdtemp(join(tmpdir(), 'plugins-'))
  const run = promisify(execFile)
  await run(python, ['-m', 'venv', '--without-pip', home])
  const asked = await run(python, ['-c', 'import os, pytest; print(os.path.dirname(os.path.dirname(pytest.__file__)))'])
  const from = asked.stdout.trim()
  const to = join(home, 'lib', basename(dirname(from)), 'site-packages')
  for (const name of ['pytest', '_pytest', 'py.py', 'pluggy', 'iniconfig', 'packaging', 'pygments'])
    await cp(join(from, name), join(to, name), { recursive: true })
  for (const [name, text] of Object.entries(plugins)) {
    await writeFile(join(to, `${name}.py`), text)
    await mkdir(join(to, `${name}-1.dist-info`))
    await writeFile(join(to, `${name}-1.dist-info`, 'entry_points.txt'), `[pytest11]\n${name} = ${name}\n`)
  }
  return { path: join(home, 'bin/python'), close: () => rm(home, { recursive: true }) }
}
