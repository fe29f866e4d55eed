import assert from 'node:assert/strict'
import { test } from 'node:test'
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
] as const) {
  test(`${command}: pytest, by the Python of ${interpreter}`, () => {
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
]) {
  test(`${command}: no audit`, () => assert.equal(of(command), null))
}

test('options are kept that neither choose nor judge a test, and load nothing', () => {
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

test('roots of imports are those inside the repository', () => {
  assert.deepEqual(of('PYTHONPATH=src:./lib/:$PWD:/etc:../x pytest')?.roots, ['src', 'lib'])
})

test("Django's script, unittest, and tox that was set up for pytest", () => {
  const django = classic('django/django', '4.2')
  assert.deepEqual([django?.runner, django?.arguments], ['django', ['--settings=test_sqlite']])
  const unittest = of('python -m unittest -v tests.test_a tests.test_b')
  assert.deepEqual([unittest?.runner, unittest?.names], ['unittest', ['tests.test_a', 'tests.test_b']])
  assert.equal(classic('sphinx-doc/sphinx', '3.5')?.runner, 'pytest')
  assert.equal(classic('sympy/sympy', '1.12'), null)
})

test('lines that prepare are passed over; two runners in one row have no audit', () => {
  assert.equal(of('echo ready\nexport X=1\npython3 -m pytest -rA tests', 'rebench-v2')?.runner, 'pytest')
  assert.equal(of('pytest\npython -m unittest tests.test_a', 'rebench-v2'), null)
})
