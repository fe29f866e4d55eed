import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A repository as in images from elsewhere: HEAD is the task, and every part of the history contains the repair. */
export interface LeakyRepository {
  tar: Buffer
  baseCommit: string
  goldPatch: string
  testPatch: string
  /** Commits that an agent must never see: the repair and all later ones. */
  secrets: string[]
}

const FILES = {
  'calc.py': 'def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n',
  'setup.cfg': '[metadata]\nname = calc\n',
  'tests/__init__.py': '',
  'tests/helpers.py': 'def check(found, wanted):\n    assert found == wanted\n',
  'tests/test_calc.py':
    'from calc import double\nfrom tests.helpers import check\n\n\ndef test_double():\n    check(double(4), 8)\n',
}
const REPAIRED = FILES['calc.py'].replace('a - b', 'a + b')
const HIDDEN_TESTS = FILES['tests/test_calc.py']
  .replace('import double', 'import add, double')
  .concat('\n\ndef test_add():\n    check(add(20, 3), 23)\n')

const IDENTITY = {
  GIT_AUTHOR_NAME: 't',
  GIT_AUTHOR_EMAIL: 't@t',
  GIT_COMMITTER_NAME: 't',
  GIT_COMMITTER_EMAIL: 't@t',
  GIT_AUTHOR_DATE: '2025-01-01T00:00:00Z',
  GIT_COMMITTER_DATE: '2025-01-01T00:00:00Z',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
}

export function createLeakyRepository(): LeakyRepository {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-attack-'))
  const other = join(folder, 'other')
  const root = join(folder, 'repository')
  const run = (program: string, args: string[], cwd = root): Buffer =>
    execFileSync(program, args, {
      cwd,
      env: { ...process.env, ...IDENTITY },
      maxBuffer: 1 << 28,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  const git = (...args: string[]): string => run('git', args).toString().trim()
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
  const commit = (message: string): string => {
    git('add', '-A')
    git('commit', '-q', '-m', message)
    return git('rev-parse', 'HEAD')
  }
  try {
    mkdirSync(other)
    mkdirSync(root)
    run('git', ['init', '-q', '-b', 'main', '--template=', other], folder)
    writeFileSync(join(other, 'x'), 'borrowed\n')
    run('git', ['add', '-A'], other)
    run('git', ['commit', '-q', '-m', 'borrowed'], other)
    git('init', '-q', '-b', 'main', '--template=', '.')
    write('README', 'calc\n')
    commit('start')
    for (const [name, text] of Object.entries(FILES)) write(name, text)
    const baseCommit = commit('task')

    // Every place in which a later commit can hide.
    const secrets: string[] = []
    git('switch', '-q', '-c', 'upstream-fix')
    write('calc.py', REPAIRED)
    secrets.push(commit('the repair'))
    const goldPatch = `${git('diff', baseCommit, 'HEAD')}\n`
    git('tag', 'v2.0')
    git('tag', '-a', 'v2.1', '-m', 'release with the repair')
    write('tests/test_calc.py', HIDDEN_TESTS)
    secrets.push(commit('the hidden tests'))
    const testPatch = `${git('diff', 'HEAD~1', 'HEAD')}\n`
    git('switch', '-q', 'main')
    git('remote', 'add', 'origin', 'https://token:hunter2@example.org/calc.git')
    git('update-ref', 'refs/remotes/origin/main', 'upstream-fix')
    git('notes', 'add', '-m', 'fix: a + b', 'HEAD')
    git('pack-refs', '--all')
    write('calc.py', `${REPAIRED}# stashed\n`)
    git('stash', '-q')
    secrets.push(git('rev-parse', 'stash@{0}').split('\n')[0] ?? '')
    git('switch', '-q', '-c', 'lost')
    write('calc.py', `${REPAIRED}# lost\n`)
    secrets.push(commit('lost'))
    git('switch', '-q', 'main')
    git('branch', '-qD', 'lost')
    git('update-ref', 'ORIG_HEAD', 'upstream-fix')
    write('.git/FETCH_HEAD', `${secrets[0]}\t\tbranch 'main' of example.org\n`)
    write('.git/objects/info/alternates', '/opt/other-objects\n')
    const tar = run('tar', ['--owner=0', '--group=0', '--numeric-owner', '-cf', '-', '.'])
    return { tar, baseCommit, goldPatch, testPatch, secrets }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
