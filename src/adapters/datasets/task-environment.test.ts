import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Task } from '../../contracts/tasks.types.ts'
import { taskEnvironment } from './task-environment.ts'

const COMMIT = 'a'.repeat(40)
const SETUP = 'b'.repeat(40)

function task(changes: Partial<Task>): Task {
  return {
    taskId: 'acme__tally-1',
    repo: 'acme/tally',
    baseCommit: COMMIT,
    gradingProfile: 'fork-4.0.3',
    ...changes,
  } as Task
}

function row(config: unknown): Record<string, unknown> {
  return { instance_id: 'acme__tally-1', install_config: config, environment_setup_commit: SETUP }
}

test('a classic row is looked up by repository and version, and keeps its set-up commit', () => {
  const flask = { instance_id: 'pallets__flask-5014', environment_setup_commit: SETUP, version: '2.3' }
  const environment = taskEnvironment(
    flask,
    task({
      repo: 'pallets/flask',
      gradingProfile: 'swebench-4.1',
      harness: { version: '2.3' } as Task['harness'] & object,
    }),
  )
  assert.deepEqual(
    [
      environment.source,
      environment.python,
      environment.packages,
      environment.requirementFiles,
      environment.setupCommit,
    ],
    ['swebench 4.1.0', '3.11', 'requirements.txt', ['requirements/dev.txt'], SETUP],
  )
  assert.deepEqual(environment.install, ['python -m pip install -e .'])
  assert.ok(environment.pipPackages.includes('Werkzeug==2.3.7'))
})

test('install_config as text or object, commands as text or list; the fork’s set-up commit is the base commit', () => {
  const config = {
    python: 3.9,
    install: 'make',
    pre_install: null,
    pip_packages: ['pytest'],
    packages: '',
    reqs_path: 'r.txt',
  }
  for (const value of [config, JSON.stringify(config)]) {
    const environment = taskEnvironment(row(value), task({}))
    assert.deepEqual(environment, {
      source: 'install_config',
      python: '3.9',
      packages: null,
      requirementFiles: ['r.txt'],
      environmentFiles: [],
      pipPackages: ['pytest'],
      pins: [],
      preInstall: [],
      install: ['make'],
      setupCommit: COMMIT,
    })
  }
})

test('what the harness leaves open and the registry has outrun is pinned, with its reason; newer versions are left alone', () => {
  const pinsOf = (version: string) => {
    const sphinx = task({ repo: 'sphinx-doc/sphinx', gradingProfile: 'swebench-4.1' })
    return taskEnvironment({ instance_id: 'sphinx-doc__sphinx-1', version }, sphinx).pins
  }
  assert.deepEqual(
    pinsOf('3.1').map((pin) => pin.package),
    ['docutils==0.21.2', 'sphinxcontrib-jsmath==1.0.1', 'Pygments==2.18.0'],
  )
  // Its first commits leave docutils open, the last ones do not.
  assert.equal(pinsOf('4.0').length, 3)
  assert.deepEqual(
    pinsOf('4.3').map((pin) => pin.package),
    ['sphinxcontrib-jsmath==1.0.1', 'Pygments==2.18.0'],
  )
  assert.match(pinsOf('3.1')[0]?.reason ?? '', /published images have this version/)
  assert.deepEqual(pinsOf('7.2'), [])
})

test('a Python below 3.6 is taken for 3.6, as the fork does; V2 names it in its base image', () => {
  assert.equal(taskEnvironment(row({ python: '3.5' }), task({})).python, '3.6')
  assert.equal(taskEnvironment(row({ python: '3.10.4' }), task({})).python, '3.10')
  const v2 = taskEnvironment(
    row({ base_image_name: 'python_3.11', install: ['a', 'b'] }),
    task({ gradingProfile: 'rebench-v2' }),
  )
  assert.deepEqual([v2.python, v2.install, v2.pipPackages], ['3.11', ['a', 'b'], ['pytest']])
  for (const [base, version] of [
    ['python_base_310', '3.10'],
    ['python_base_37', '3.7'],
    ['python_3.11_base:latest', '3.11'],
    ['python_3_12', '3.12'],
    ['registry.example/bases/python_3.9:latest', '3.9'],
    ['python:3.9.18', '3.9'],
  ] as const) {
    const named = taskEnvironment(row({ base_image_name: base, install: [] }), task({ gradingProfile: 'rebench-v2' }))
    assert.equal(named.python, version, base)
  }
})

test('what says no version of Python, and a repository that the harness does not know, are refused by row', () => {
  for (const config of [{}, { python: 'new' }, { base_image_name: 'golang_1.22' }]) {
    assert.throws(() => taskEnvironment(row(config), task({})), /install_config\.python/)
  }
  const unknown = { instance_id: 'acme__tally-1', version: '9' }
  assert.throws(
    () => taskEnvironment(unknown, task({ gradingProfile: 'swebench-4.1' })),
    /Expected a repository and version whose environment swebench 4\.1\.0 knows.*repo=acme\/tally/,
  )
})
