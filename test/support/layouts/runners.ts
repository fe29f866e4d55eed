/**
 * Test runners of the layout tasks. pytest is the base image's own and the Django-like one is unittest; the others are a few lines of
 * Python in the repository that print the output of the runner of that name.
 */

export interface RunnerFiles {
  /** Programs in the repository. */
  tools: Record<string, string>
  existing: Record<string, string>
  changed: Record<string, string>
  added: Record<string, string>
  ids: { failToPass: string[]; passToPass: string[]; added: string[] }
}

const PYTEST = 'tests/test_prices.py'
const PYTEST_ADDED = 'tests/test_more.py'

function pytest(fee: number): RunnerFiles {
  const head = 'from shop import prices\n\n\n'
  const old = 'def test_cheapest():\n    assert prices.cheapest([3, 2]) == 2\n'
  const more = `\n\ndef test_total():\n    assert prices.total([3, 2]) == ${5 + fee}\n\n\ndef test_count():\n    assert prices.count([3, 2]) == 2\n`
  return {
    tools: {
      'conftest.py': 'import sys\n\nsys.dont_write_bytecode = True\n',
      '.gitignore': '__pycache__/\n.pytest_cache/\n',
    },
    existing: { [PYTEST]: head + old },
    changed: { [PYTEST]: head + old + more },
    added: { [PYTEST_ADDED]: `${head}def test_dearest():\n    assert prices.dearest([3, 2]) == 3\n` },
    ids: {
      failToPass: [`${PYTEST}::test_total`],
      passToPass: [`${PYTEST}::test_cheapest`, `${PYTEST}::test_count`],
      added: [`${PYTEST_ADDED}::test_dearest`],
    },
  }
}

/** Labels of unittest modules, options of Django's script. */
function django(fee: number): RunnerFiles {
  const head = 'import unittest\n\nfrom shop import prices\n\n\nclass PriceTests(unittest.TestCase):\n'
  const method = (name: string, call: string, value: number): string =>
    `    def test_${name}(self):\n        self.assertEqual(prices.${call}([3, 2]), ${value})\n`
  const old = method('cheapest', 'cheapest', 2)
  const id = (name: string, module: string): string => `test_${name} (${module}.PriceTests.test_${name})`
  return {
    tools: {
      'tests/runtests.py': `#!/usr/bin/env python
import argparse
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
parser = argparse.ArgumentParser()
parser.add_argument("labels", nargs="*")
parser.add_argument("--verbosity", type=int, default=1)
parser.add_argument("--settings")
parser.add_argument("--parallel", type=int, default=1)
options = parser.parse_args()
tests = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(tests), str(tests.parent)]
suite = unittest.defaultTestLoader.loadTestsFromNames(options.labels)
result = unittest.TextTestRunner(verbosity=options.verbosity).run(suite)
sys.exit(not result.wasSuccessful())
`,
    },
    existing: { 'tests/prices/__init__.py': '', 'tests/prices/tests.py': head + old },
    changed: {
      'tests/prices/tests.py': `${head}${old}\n${method('total', 'total', 5 + fee)}\n${method('count', 'count', 2)}`,
    },
    added: { 'tests/prices/test_more.py': head + method('dearest', 'dearest', 3) },
    ids: {
      failToPass: [id('total', 'prices.tests')],
      passToPass: [id('cheapest', 'prices.tests'), id('count', 'prices.tests')],
      added: [id('dearest', 'prices.test_more')],
    },
  }
}

/** Runs every `test_…` function of the named files; `SHAPE` determines how results are printed. */
const PLAIN_RUNNER = `import pathlib
import runpy
import sys
import traceback

sys.dont_write_bytecode = True
root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root))
failures = []
`

function functions(fee: number, folder: string): Omit<RunnerFiles, 'tools' | 'ids'> {
  const head = 'from shop import prices\n\n\n'
  const one = (name: string, value: number): string =>
    `def test_${name}():\n    assert prices.${name}([3, 2]) == ${value}\n`
  const file = `${folder}/test_prices.py`
  return {
    existing: { [file]: head + one('cheapest', 2) },
    changed: { [file]: [head + one('cheapest', 2), one('total', 5 + fee), one('count', 2)].join('\n\n') },
    added: { [`${folder}/test_more.py`]: head + one('dearest', 3) },
  }
}

function idsBy(name: (test: string) => string): RunnerFiles['ids'] {
  return {
    failToPass: [name('total')],
    passToPass: [name('cheapest'), name('count')],
    added: [name('dearest')],
  }
}

function sympy(fee: number): RunnerFiles {
  return {
    ...functions(fee, 'shop/tests'),
    tools: {
      'bin/test': `#!/usr/bin/env python
${PLAIN_RUNNER}print("============================= test process starts ==============================")
print("executable:", sys.executable)
for path in (word for word in sys.argv[1:] if not word.startswith("-")):
    tests = {name: run for name, run in runpy.run_path(path).items() if name.startswith("test_")}
    print(f"\\n{path}[{len(tests)}]")
    for name, run in tests.items():
        try:
            run()
            print(name, "ok")
        except AssertionError:
            print(name, "F")
            failures.append((path, name, traceback.format_exc()))
    print("[FAIL]" if any(where == path for where, _, _ in failures) else "[OK]")
for path, name, text in failures:
    print("\\n" + "_" * 80)
    print("_" * 20, f"{path}:{name}", "_" * 20)
    print(text)
print("tests finished:", len(failures), "failed")
sys.exit(bool(failures))
`,
    },
    ids: idsBy((test) => `test_${test}`),
  }
}

/** Prints the results of `checks/` in another language's format, and a line of progress on standard error. */
function printed(
  fee: number,
  shape: { before: string; passed: string; failed: string },
  name: (test: string) => string,
) {
  const runner = `${PLAIN_RUNNER}print("running", file=sys.stderr)
print(${shape.before})
for path in sorted((root / "checks").glob("test_*.py")):
    for name, run in runpy.run_path(str(path)).items():
        if not name.startswith("test_"):
            continue
        name = name[len("test_"):]
        try:
            run()
            print(${shape.passed})
        except AssertionError as error:
            print(${shape.failed})
            failures.append(name)
print("failed:", len(failures), file=sys.stderr)
sys.exit(bool(failures))
`
  return { ...functions(fee, 'checks'), tools: { 'tools/run_checks.py': runner }, ids: idsBy(name) }
}

function gotest(fee: number): RunnerFiles {
  const shape = {
    before: '"ok"',
    passed: 'f"=== RUN   Test{name.title()}\\n--- PASS: Test{name.title()} (0.01s)"',
    failed: 'f"=== RUN   Test{name.title()}\\n--- FAIL: Test{name.title()} (0.02s)"',
  }
  return printed(fee, shape, (test) => `Test${test[0]?.toUpperCase()}${test.slice(1)}`)
}

function cargo(fee: number): RunnerFiles {
  const shape = {
    before: '"\\nrunning tests"',
    passed: 'f"test prices::{name} ... ok"',
    failed: 'f"test prices::{name} ... FAILED"',
  }
  return printed(fee, shape, (test) => `prices::${test}`)
}

function vitest(fee: number): RunnerFiles {
  const shape = {
    before: '" RUN  v1.6.0"',
    passed: 'f" \\u2713 prices > {name} 3ms"',
    failed: 'f" \\u00d7 prices > {name} 5ms"',
  }
  return printed(fee, shape, (test) => `prices > ${test}`)
}

export const RUNNERS = { pytest, django, sympy, gotest, cargo, vitest }
export type RunnerName = keyof typeof RUNNERS
