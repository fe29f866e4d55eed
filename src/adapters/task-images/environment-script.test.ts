import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TaskEnvironment } from '../../contracts/task-images.types.ts'
import { condaPackage, environmentScript } from './environment-script.ts'
import type { Repository } from './repository.ts'

const PLAIN: TaskEnvironment = {
  source: 'install_config',
  python: '3.9',
  packages: null,
  requirementFiles: [],
  environmentFiles: [],
  pipPackages: [],
  pins: [],
  preInstall: [],
  install: [],
  setupCommit: 'c'.repeat(40),
}

function script(environment: Partial<TaskEnvironment>, files: Record<string, string> = {}): Promise<string> {
  const repository: Pick<Repository, 'read'> = { read: async (_commit, path) => files[path] ?? null }
  return environmentScript({
    environment: { ...PLAIN, ...environment },
    repository: repository as Repository,
    repo: 'acme/tally',
  })
}

test('requirement files that a requirement file names come first; the repository itself, comments and test extras are left out', async () => {
  const text = await script(
    { packages: 'requirements.txt', requirementFiles: ['missing.txt', 'ci/dev.txt'] },
    {
      'ci/dev.txt': '-r base.txt\n# why\n-e .\none==1\ntypes-pkg_resources==0.1.3\n.[test]\n',
      'ci/base.txt': 'two>=2\n# no\n',
    },
  )
  const [, body = ''] = /<<'EOF_59812759871' > \/root\/requirements\.txt\n([^]*?)\nEOF_59812759871/.exec(text) ?? []
  assert.deepEqual(
    body.split('\n').filter((line) => line !== ''),
    ['two>=2', 'one==1', 'types-setuptools'],
  )
  assert.match(text, /python -m pip install -r \/root\/requirements\.txt/)
})

test('a comparison in a package’s version is no redirection', async () => {
  const text = await script({ pipPackages: ['pytest<8', "'numpy>=1.2'", 'six'] })
  assert.match(text, /python -m pip install 'pytest<8' 'numpy>=1\.2' 'six'$/)
})

test('a pinned package comes with the harness’s own ones, and the build notes why', async () => {
  const pins = [{ package: 'docutils==0.21.2', reason: 'the harness’s images have it' }]
  const text = await script({ pipPackages: ['tox'], pins })
  assert.match(
    text,
    /python -m pip install 'tox' 'docutils==0\.21\.2'\necho 'longhaul: docutils==0\.21\.2: the harness’s/,
  )
  assert.match(await script({ pins }), /python -m pip install 'docutils==0\.21\.2'\n/)
})

test('the Python below is shown the packages where tox-current-env links to the interpreter, and nowhere else', async () => {
  for (const entry of ['tox-current-env==0.0.11', "'tox-current-env'"]) {
    assert.match(await script({ pipPackages: ['tox==4.16.0', entry] }), /testbed\.pth"$/)
  }
  assert.doesNotMatch(await script({ pipPackages: ['tox==4.16.0'] }), /testbed\.pth/)
})

test('names of conda become names of pip, one by one where they do not install together', async () => {
  const text = await script({ packages: '\'numpy=1.19\' "pandas<2.0" python=3.9 pytables' })
  assert.match(text, /pip install 'numpy==1\.19\.\*' 'pandas<2\.0' 'tables' \|\| \{/)
  const yml = 'name: x\ndependencies:\n  - python=3.9\n  - conda-forge::iris\n  - pip\n  - pip:\n    - numbagg\n'
  const fromFile = await script({ packages: 'environment.yml', environmentFiles: ['env.yml'] }, { 'env.yml': yml })
  assert.match(fromFile, /pip install 'scitools-iris' 'numbagg' \|\|/)
})

test('versions of conda', () => {
  const cases: [string, string[]][] = [
    ['numpy', ['numpy']],
    ['numpy=1.19', ['numpy==1.19.*']],
    ['numpy=1.19.*', ['numpy==1.19.*']],
    ['numpy=1.19.2=py39_0', ['numpy==1.19.2.*']],
    ['numpy==1.19.2', ['numpy==1.19.2']],
    ['numpy >=1.19', ['numpy>=1.19']],
    ['python>=3.8', []],
    ['', []],
  ]
  for (const [entry, expected] of cases) assert.deepEqual(condaPackage(entry), expected, entry)
})

test('a file of packages that the commit lacks is named, with where it was looked for', async () => {
  await assert.rejects(
    script({ packages: 'requirements.txt', requirementFiles: ['dev.txt'] }),
    /Expected a file with the requirements of acme\/tally at commit c{40}: dev\.txt.*stage=environment/,
  )
})
