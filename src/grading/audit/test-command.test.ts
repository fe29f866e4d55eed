import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testCommandOf } from './test-command.ts'

const of = (testCmd: string, gradingProfile: 'fork-4.0.3' | 'rebench-v2' = 'fork-4.0.3') =>
  testCommandOf({
    repo: 'lane/shop',
    gradingProfile,
    installConfig: { install: null, testCmd, logParser: 'parse_log_pytest' },
  })
const classic = (repo: string, version: string) =>
  testCommandOf({
    repo,
    gradingProfile: 'swebench-4.1',
    installConfig: { install: null, testCmd: '', logParser: repo },
    harness: { version, evalScript: null, evalType: null, language: null },
  })

for (const [command, interpreter] of [
  ['pytest -rA', 'pytest'],
  ['py.test --no-header', 'py.test'],
  ['python3 -B -m pytest -rA -p no:cacheprovider', 'python3'],
  ['PYTHONPATH=src python -W ignore -m pytest', 'python'],
  ['xvfb-run -a poetry run pytest tests', 'pytest'],
  ['timeout 600 /opt/venv/bin/python3.9 -m pytest', '/opt/venv/bin/python3.9'],
  ['coverage run -m pytest', 'python'],
  ['cd tests && pytest || true', 'pytest'],
  ['uv run --frozen pytest', 'pytest'],
  ['pipenv run pytest', 'pytest'],
  ['pdm run pytest', 'pytest'],
  ['time pytest', 'pytest'],
  ['timeout -k 5 600s pytest', 'pytest'],
  ['env PYTHONHASHSEED=0 A=1 pytest', 'pytest'],
  ['/opt/venv/bin/pytest tests', '/opt/venv/bin/pytest'],
  ['python -m py.test', 'python'],
  ['python3.9 -m coverage run -m pytest', 'python3.9'],
  ['coverage run --source a -m pytest', 'python'],
  ['python -X dev -W error -m pytest', 'python'],
  ['tox --current-env -epy39 -v --', 'python'],
  ['uv run /opt/my-venv/bin/pytest tests', '/opt/my-venv/bin/pytest'],
  ['xvfb-run /opt/my-venv/bin/pytest tests', '/opt/my-venv/bin/pytest'],
  ['timeout 600 /opt/my-venv/bin/pytest tests', '/opt/my-venv/bin/pytest'],
] as const) {
  test(`${command} is pytest with the Python of ${interpreter}`, () => {
    const found = of(command)
    assert.deepEqual([found?.runner, found?.interpreter], ['pytest', interpreter])
  })
}

for (const command of [
  'go test ./...',
  'bin/test -C --verbose',
  'nosetests',
  'python setup.py test',
  'tox',
  'npm test',
  'mypytest',
  'pytest-xdist',
  './pytest/run',
  'ipython -m pytest',
  'python-config -m pytest',
  'coverage report -m pytest',
  'hatch run -m pytest',
  './A=x pytest',
  'runtests.py.bak basic',
  'python -m runtests.py basic',
  'run pytest',
  'python -m coverage report -m pytest',
  'python -m mypy -m pytest',
  'python build.py -m pytest',
  'python -W',
  'uv sync pytest',
  'poetry pytest',
  'make pytest',
  'a=b.c+=1',
  '',
]) {
  test(`${command} has no audit`, () => assert.equal(of(command), null))
}

test('keeps only options that neither select nor judge a test, and load nothing', () => {
  const found = of(
    `pytest -rA -W "ignore::UserWarning" -Werror -p no:cacheprovider -p evil -pevil -c evil.ini --rootdir=/x -n 4 -k "not slow" --tb=no --import-mode importlib -o addopts=x -o asyncio_mode=auto --maxfail=1 tests`,
  )
  assert.deepEqual(found?.arguments, [
    '-W',
    'ignore::UserWarning',
    '-W',
    'error',
    '-p',
    'no:cacheprovider',
    '--tb=no',
    '--import-mode=importlib',
    '-o',
    'asyncio_mode=auto',
  ])
  assert.deepEqual(found?.names, ['tests'])
})

test('long options equal the short ones, and an option without its value is left out', () => {
  const found = of('pytest --pythonwarnings=error --override-ini=asyncio_mode=auto --asyncio-mode strict --color yes')
  assert.deepEqual(found?.arguments, ['-W', 'error', '-o', 'asyncio_mode=auto', '--asyncio-mode=strict'])
  for (const bare of ['-W', '-p', '--tb', '-o', '--pythonwarnings', '--import-mode']) {
    assert.deepEqual(of(`pytest ${bare}`)?.arguments, [], bare)
  }
})

test('a redirection is no test, and a word that resembles one is', () => {
  assert.deepEqual(of('pytest tests >log 2>&1 <in a>b tests/x1>')?.names, ['tests', 'a>b', 'tests/x1>'])
  assert.deepEqual(of('pytest tests >&2 tests/x1')?.names, ['tests', 'tests/x1'])
})

test('splits words like a shell, with quotes, escapes and operators', () => {
  const names = (words: string): string[] | undefined => of(`pytest ${words}`)?.names
  assert.deepEqual(names(`'a b' "c d" e\\ f 'it is'"so"`), ['a b', 'c d', 'e f', 'it isso'])
  assert.deepEqual(names(`"say \\"x\\" \\n" ''x`), ['say "x" \\n', 'x'])
  assert.deepEqual(names('a;echo b'), ['a'])
  assert.deepEqual(names('a|tee b'), ['a'])
  assert.deepEqual(names('a & b'), ['a'])
  assert.deepEqual(of('pytest a\npytest b && pytest c', 'rebench-v2')?.names, ['a', 'b', 'c'])
})

describe("a row of the harness's fifth version has its own script", () => {
  const rowWith = (evalScript: string | null) => ({
    repo: 'lane/shop',
    gradingProfile: 'swebench-5' as const,
    installConfig: { install: null, testCmd: 'pytest from-the-row', logParser: 'x' },
    harness: { version: null, evalScript, evalType: null, language: null },
  })
  const read = (lines: string[] | null) => testCommandOf(rowWith(lines === null ? null : lines.join('\n')))
  const START = ": '>>>>> Start Test Output'"
  const END = ": '>>>>> End Test Output'"

  test('takes only the command between its markers', () => {
    const found = read(['pytest before', START, 'pytest -rA tests/test_a.py', 'pytest more', END, 'pytest behind'])
    assert.deepEqual(found?.names, ['tests/test_a.py', 'more'])
  })

  test('an end marker before the start is ignored, and without one all lines after the start count', () => {
    assert.deepEqual(read([END, START, 'pytest a', 'pytest b'])?.names, ['a', 'b'])
    assert.deepEqual(read([START, 'pytest a'])?.names, ['a'])
    assert.deepEqual(read([`${START} # up to ${END}`, 'pytest a', END, 'pytest b'])?.names, ['a'])
  })

  test('a script without a start, without a command between its markers, or a missing script has no audit', () => {
    assert.equal(read(['pytest a', END]), null)
    assert.equal(read(['pytest a', START, END, 'pytest b']), null)
    assert.equal(read(null), null)
    const { harness: _harness, ...bare } = rowWith(null)
    assert.equal(testCommandOf(bare), null)
  })
})

test('a classic row without a known command has no audit, even with a command in its own column', () => {
  const found = testCommandOf({
    repo: 'lane/unknown',
    gradingProfile: 'swebench-4.1',
    installConfig: { install: null, testCmd: 'pytest', logParser: 'x' },
  })
  assert.equal(found, null)
})

test("Django's script takes labels and options with values, and another file of that name does not count", () => {
  const read = (command: string) => {
    const found = of(command)
    return found === null ? null : [found.runner, found.interpreter, found.arguments, found.names]
  }
  assert.deepEqual(read('./tests/runtests.py --settings test_sqlite --parallel 1 -v 2 --tag a --exclude-tag b basic'), [
    'django',
    'python',
    ['--settings=test_sqlite'],
    ['basic'],
  ])
  assert.deepEqual(read('runtests.py --verbosity 2 --start-at x -k y basic admin'), [
    'django',
    'python',
    [],
    ['basic', 'admin'],
  ])
  assert.deepEqual(read('python3 -Wall tests/runtests.py --settings=a.b basic --settings'), [
    'django',
    'python3',
    ['--settings=a.b'],
    ['basic'],
  ])
  assert.deepEqual(read('python runtests.py basic'), ['django', 'python', [], ['basic']])
  assert.equal(read('python tests/myruntests.py basic'), null)
  assert.equal(read('python runtests.py.bak basic'), null)
  assert.equal(read('myruntests.py basic'), null)
})

test('discovery of unittest names no tests, and its options are not taken', () => {
  assert.deepEqual(of('python -m unittest discover -s tests')?.names, [])
  assert.deepEqual(of('python -m unittest -v a.b tests/test_c.py')?.names, ['a.b', 'tests/test_c.py'])
  assert.deepEqual(of('python -m unittest a')?.arguments, [])
})

test('variables before the command are not part of it, and one of them names roots', () => {
  assert.deepEqual(of('A=src B= PYTHONPATH=lib _C=x pytest a=b')?.roots, ['lib'])
  assert.deepEqual(of('PYTHONPATH=::.:./ pytest')?.roots, ['.'])
  assert.deepEqual(of('PYTHONPATH pytest'), null)
})

test('import roots are those inside the repository', () => {
  assert.deepEqual(of('PYTHONPATH=src:./lib/:$PWD:/etc:../x pytest')?.roots, ['src', 'lib'])
})

test("supports Django's script, unittest, and tox that was set up for pytest", () => {
  const django = classic('django/django', '4.2')
  assert.deepEqual([django?.runner, django?.arguments], ['django', ['--settings=test_sqlite']])
  const unittest = of('python -m unittest -v tests.test_a tests.test_b')
  assert.deepEqual([unittest?.runner, unittest?.names], ['unittest', ['tests.test_a', 'tests.test_b']])
  assert.deepEqual(classic('sphinx-doc/sphinx', '3.5'), {
    runner: 'pytest',
    interpreter: 'python',
    arguments: [],
    names: [],
    roots: [],
  })
  assert.equal(classic('sympy/sympy', '1.12'), null)
})

test('skips preparing lines, and a row with two runners has no audit', () => {
  assert.equal(of('echo ready\nexport X=1\npython3 -m pytest -rA tests', 'rebench-v2')?.runner, 'pytest')
  assert.equal(of('pytest\npython -m unittest tests.test_a', 'rebench-v2'), null)
})
