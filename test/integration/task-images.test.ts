/** An image built for a row that names one which no registry has: from a repository's history, gated and graded like a published one. */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { changeEnvironment, useEnvironment } from '../support/environment.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import type { Engine } from '../../src/adapters/docker/engine/engine.ts'
import { choosePython, listHostPythons } from '../../src/adapters/task-images/host-pythons.ts'
import type { HostPython } from '../../src/contracts/task-images.types.ts'
import type { GateReport } from '../../src/contracts/gates.types.ts'
import { tempName } from '../../src/platform/temp-files.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { longhaul } from '../support/command-line.ts'
import { eventually } from '../support/hang.ts'
import { closeServer, listenOnLoopback } from '../support/loopback.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { startPackageIndex, type PackageIndex } from '../support/package-index.ts'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-task-images-'))
const mirrors = join(folder, 'mirrors')
const series = process.pid
const PASSWORD = `pass-${series}-word`
let world: PipelineWorld
let engine: Engine
let base: string
let python: HostPython
let index: PackageIndex
const made: string[] = []
useEnvironment({ after })

/** Why nothing can be built here: a Python that a container runs is the host's to offer. */
const pythons = await listHostPythons()
const found = ['3.11', '3.12', '3.10', '3.9']
  .map((version) => choosePython(pythons, version))
  .find((one) => one !== null)
const skip =
  needsStack !== false ? needsStack : found === undefined ? 'no Python of uv, pyenv or conda on this host' : false

const BROKEN = 'def add(one, other):\n    return one - other\n'
const REPAIRED = 'def add(one, other):\n    return one + other\n'
const TESTS = 'from tally import add\n\n\ndef test_zero():\n    assert add(2, 0) == 2\n'
const MORE_TESTS = `${TESTS}\n\ndef test_sum():\n    assert add(2, 3) == 5\n`
const SETUP =
  'from setuptools import setup\n\nsetup(name="tally", version="1.0", py_modules=["tally"], install_requires=["chit"])\n'

const COMMITTED = '2026-01-01T00:00:00+00:00'

function git(...args: string[]): string {
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@localhost']
  const isCommit = args[0] === 'commit'
  const env = { ...process.env, ...(isCommit ? { GIT_COMMITTER_DATE: COMMITTED } : {}) }
  return execFileSync('git', ['-C', join(mirrors, 'acme__tally'), ...identity, ...args], {
    encoding: 'utf8',
    env,
  }).trim()
}

function write(path: string, text: string): void {
  writeFileSync(join(mirrors, 'acme__tally', path), text)
}

let row: Record<string, unknown>
let future: string

before(async () => {
  if (skip !== false) return
  assert.ok(found !== undefined)
  python = found
  world = await attachWorld()
  engine = world.engine
  base = (await ensureBaseImage({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), log: () => undefined })).tag
  mkdirSync(join(mirrors, 'acme__tally'), { recursive: true })
  git('init', '-q', '-b', 'main')
  write('tally.py', BROKEN)
  write('setup.py', SETUP)
  write('test_tally.py', TESTS)
  git('add', '-A')
  git('commit', '-qm', 'Begin')
  const baseCommit = git('rev-parse', 'HEAD')
  git('tag', 'v1')
  git('tag', '-a', '-m', 'the repair is add', 'v1.1-late')
  write('tally.py', REPAIRED)
  const patch = `${git('diff')}\n`
  git('commit', '-qam', 'Repair')
  write('test_tally.py', MORE_TESTS)
  const testPatch = `${git('diff')}\n`
  git('commit', '-qam', 'Test')
  git('tag', 'v2')
  future = git('rev-parse', 'HEAD~1:tally.py')
  row = {
    instance_id: `acme__tally-${series}`,
    repo: 'acme/tally',
    base_commit: baseCommit,
    patch,
    test_patch: testPatch,
    problem_statement: `add subtracts (${series})`,
    hints_text: '',
    created_at: '2026-01-01T00:00:00Z',
    version: '1.0',
    FAIL_TO_PASS: ['test_tally.py::test_sum'],
    PASS_TO_PASS: ['test_tally.py::test_zero'],
    install_config: {
      python: python.version.split('.').slice(0, 2).join('.'),
      pip_packages: ['pytest==7.4.4', 'tox-current-env==0.0.11'],
      pre_install: ['touch /root/prepared'],
      install: 'python -m pip install -e .',
      test_cmd: 'pytest -rA',
      log_parser: 'parse_log_pytest',
    },
  }
  // The only place that has the package which the repository needs; it asks for a password.
  index = await startPackageIndex({ user: 'reader', password: PASSWORD, packages: { chit: '1.0' } })
  process.env['PIP_EXTRA_INDEX_URL'] = index.url
})

after(async () => {
  for (const image of made)
    await engine.docker
      .getImage(image)
      .remove({ force: true })
      .catch(() => undefined)
  await index?.close()
  await world?.close()
  rmSync(folder, { recursive: true, force: true })
})

function suite(name: string, changes: Record<string, unknown> = {}): string {
  const path = join(folder, `${name}.jsonl`)
  writeFileSync(path, `${JSON.stringify({ ...row, ...changes })}\n`)
  return path
}

interface Line {
  event: string
  did?: string
  stage?: string
  message?: string
  tag?: string
  image?: string
  log?: string
  record?: { python: HostPython; network: string; deviations: string[] }
}

async function buildAll(path: string, ...options: string[]) {
  const words = ['images', 'build', path, '--repos', mirrors, '--base', base, '--network', 'host', '--json', ...options]
  const { exitCode, stdout, stderr } = await longhaul(...words)
  const lines = stdout.split('\n').filter((line) => line !== '')
  const images = lines.map((line) => JSON.parse(line) as Line).filter(({ event }) => event === 'image')
  for (const { tag, image } of images) for (const name of [tag, image]) if (name) made.push(name)
  return { exitCode, images, text: `${stdout}\n${stderr}` }
}

async function build(path: string, ...options: string[]): Promise<{ exitCode: number; image: Line; text: string }> {
  const { images, ...rest } = await buildAll(path, ...options)
  return { ...rest, image: images[0] ?? assert.fail(rest.text) }
}

/** What a command in a container of the image says. */
async function inside(image: string, command: string): Promise<string> {
  const chunks: Buffer[] = []
  const container = await engine.docker.createContainer({
    Image: image,
    Cmd: ['/bin/bash', '-c', command],
    Tty: true,
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    const stream = await container.attach({ stream: true, stdout: true, stderr: true })
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    const ended = new Promise((resolve) => stream.on('end', resolve))
    await container.start()
    await ended
    return Buffer.concat(chunks).toString()
  } finally {
    await container.remove({ force: true })
  }
}

test('a built image is found again, holds no later commit or password, and its task passes the gate', {
  skip,
}, async () => {
  const path = suite('whole')
  const first = await build(path)
  assert.equal(first.exitCode, 0, first.text)
  assert.equal(first.image.did, 'built')
  assert.match(first.image.tag ?? '', /^longhaul\/task:[0-9a-f]{24}$/)
  assert.equal(first.image.record?.python.prefix, python.prefix)
  assert.ok(index.asked().includes('/simple/chit/'), 'the build asked the user’s own index')

  const second = await build(path)
  assert.deepEqual([second.image.did, second.image.tag], ['found', first.image.tag])

  const image = first.image.image ?? ''
  const seen = await inside(
    image,
    `source /opt/miniconda3/bin/activate; conda activate testbed; cd /testbed; python --version; python -c 'import chit, tally'; git --no-pager log --format='%s %cI %aI'; git --no-pager tag; git cat-file -e ${future} || echo gone; grep -rl ${PASSWORD} / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; ls /root/prepared; ln -s "$(command -v python)" /tmp/linked; /tmp/linked -c 'import chit, pytest, tally; print("linked")'`,
  )
  assert.match(seen, new RegExp(`Python ${python.version.replaceAll('.', '\\.')}`))
  const lines = seen.split(/\r?\n/).filter((line) => line !== '')
  // Tags of later days say what came, also where they stand on an old commit.
  assert.equal(
    lines[1],
    `SWE-bench ${COMMITTED} ${COMMITTED}`,
    'commit times must increase and be equal after another build',
  )
  assert.match(lines[2] ?? '', new RegExp(`^Begin ${COMMITTED.replace('+', '\\+')} `))
  assert.deepEqual(lines.slice(3), ['v1', 'gone', '/root/prepared', 'linked'])

  const facts = JSON.stringify([
    await engine.docker.getImage(image).inspect(),
    await engine.docker.getImage(image).history(),
  ])
  const log = readFileSync(first.image.log ?? '', 'utf8')
  for (const text of [facts, log, first.text]) {
    assert.ok(!text.includes(PASSWORD), 'no password')
    assert.ok(!text.includes(new URL(index.url).host), 'no address of the registry')
  }

  const gated = await longhaul(
    'tasks',
    'gate',
    path,
    '--repeats',
    '1',
    '--fresh',
    '--json',
    '-c',
    'grading.unauditedRewards=allow',
  )
  assert.equal(gated.exitCode, 0, gated.stdout + gated.stderr)
  const { report } = JSON.parse(gated.stdout.trim().split('\n').at(-1) ?? '') as { report: GateReport }
  assert.deepEqual([report.counts.passed, report.tasks], [1, 1])
})

test('names a Python that the host lacks, with what the host has and how to install it', { skip }, async () => {
  const config = { ...(row['install_config'] as object), python: '3.99' }
  const { exitCode, image } = await build(suite('python', { install_config: config }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'python'])
  assert.match(image.message ?? '', /Expected Python 3\.99 on this host, found .*uv python install 3\.99/)
  const old = { ...config, python: '2.7' }
  const { image: refused } = await build(suite('python-2', { install_config: old }))
  assert.match(refused.message ?? '', /Expected a version of Python 3, got 2\.7: such an image cannot be built/)
})

test('names a commit that the mirror lacks, with the command that fetches it', { skip }, async () => {
  const commit = '0123456789abcdef0123456789abcdef01234567'
  const { exitCode, image } = await build(suite('commit', { base_commit: commit }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'source'])
  assert.match(
    image.message ?? '',
    new RegExp(`Expected commit ${commit} .*git -C .*acme__tally fetch ADDRESS ${commit}`),
  )
})

test('names a missing mirror, with the accepted names', { skip }, async () => {
  const { exitCode, image } = await build(suite('mirror', { repo: 'acme/other' }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'source'])
  assert.match(
    image.message ?? '',
    /Expected a mirror or a bundle of acme\/other .*acme__other\.bundle.*git clone --mirror/,
  )
})

test('a failing installation shows its last lines and leaves no image', { skip }, async () => {
  const config = { ...(row['install_config'] as object), install: 'echo the compiler is missing && false' }
  const { exitCode, image } = await build(suite('install', { install_config: config }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'install'])
  assert.match(image.message ?? '', /installation of the repository failed[^]*the compiler is missing/)
  assert.match(readFileSync(image.log ?? '', 'utf8'), /the compiler is missing/)
})

test('a command before the installation that fails is named with its last lines; once it is right, the same command builds', {
  skip,
}, async () => {
  const config = row['install_config'] as object
  const wrong = { ...config, pre_install: ['echo the tool is missing >&2', 'false'], install: 'true # prepared' }
  const { exitCode, image } = await build(suite('prepared', { install_config: wrong }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'pre-install'])
  assert.match(image.message ?? '', /command before the installation failed.* pre_install [^]*the tool is missing/)
  assert.deepEqual(await buildContainers(), [])
  const right = { ...config, install: 'true # prepared' }
  const again = await build(suite('prepared', { install_config: right }))
  assert.deepEqual([again.exitCode, again.image.did], [0, 'built'], again.text)
})

test('an environment that two tasks share and that cannot be made is tried once, and said once', { skip }, async () => {
  const config = { ...(row['install_config'] as object), pip_packages: [`no-such-package-${series}==1`] }
  const rows = ['a', 'b'].map((name) => ({ ...row, instance_id: `acme__${name}-${series}`, install_config: config }))
  const path = join(folder, 'shared.jsonl')
  writeFileSync(path, rows.map((one) => `${JSON.stringify(one)}\n`).join(''))
  const { exitCode, images } = await buildAll(path)
  assert.equal(exitCode, 2)
  assert.deepEqual(
    images.map(({ did, stage }) => [did, stage]),
    [
      ['failed', 'environment'],
      ['failed', 'environment'],
    ],
  )
  assert.match(images[0]?.message ?? '', new RegExp(`packages of the environment[^]*no-such-package-${series}`))
  assert.match(images[1]?.message ?? '', new RegExp(`^Its environment is that of acme__a-${series}, which could not`))
})

test('a base image that no registry has is one error for all tasks', { skip }, async () => {
  const path = join(folder, 'many.jsonl')
  const rows = ['c', 'd'].map((name) => ({ ...row, instance_id: `acme__${name}-${series}` }))
  writeFileSync(path, rows.map((one) => `${JSON.stringify(one)}\n`).join(''))
  const absent = `127.0.0.1:9/absent:${series}`
  const { exitCode, stdout, stderr } = await longhaul('images', 'build', path, '--repos', mirrors, '--base', absent)
  assert.deepEqual([exitCode, stdout], [2, ''])
  assert.match(stderr, /error Image\.BuildFailed: The base image is not available: [^\n]*--base, or build without it/)
  assert.equal(stderr.match(/is not available/g)?.length, 1)
})

test('an interrupted build leaves no container, a second builder waits for the first, and the same command builds', {
  skip,
}, async (t) => {
  let hold = true
  const arrived: ServerResponse[] = []
  const server = createServer((_, response) => {
    arrived.push(response)
    if (!hold) response.end('go on')
  })
  const port = await listenOnLoopback(server)
  t.after(() => closeServer(server))
  const ask = `python -c "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:${port}/').read()"`
  const path = suite('held', { install_config: { ...(row['install_config'] as object), install: ask } })
  const words = ['images', 'build', path, '--repos', mirrors, '--base', base, '--network', 'host']
  const cli = fileURLToPath(new URL('../../bin/longhaul.mjs', import.meta.url))
  const child = spawn(process.execPath, [cli, ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
  const said = text(child.stderr)
  const ended = new Promise((resolve) => child.on('exit', resolve))
  await eventually(async () => assert.equal(arrived.length, 1))
  child.kill('SIGINT')
  assert.equal(await ended, 130, await said)
  assert.deepEqual(await buildContainers(), [])

  // As a killed builder leaves it.
  const left = join(tmpdir(), `longhaul-history-${tempName().split('.')[0]}.${spawnSync('true').pid}-1.x`)
  mkdirSync(left)
  const first = build(path)
  await eventually(async () => assert.equal(arrived.length, 2))
  const second = build(path)
  hold = false
  // The first builder has the lock until its installation is answered.
  arrived[1]?.end('go on')
  assert.deepEqual([(await first).exitCode, (await first).image.did], [0, 'built'], (await first).text)
  assert.deepEqual([(await second).exitCode, (await second).image.did], [0, 'found'], (await second).text)
  assert.equal(arrived.length, 2)
  assert.ok(!existsSync(left), 'the history of the killed builder is removed')
})

/** Names of containers that a build left. */
async function buildContainers(): Promise<string[]> {
  const all = await engine.docker.listContainers({ all: true, filters: { label: ['longhaul.role=task-build'] } })
  return all.flatMap(({ Names }) => Names)
}

test('names a full disk with its stage and what frees it', { skip }, async () => {
  // The smallest file system that a build can fill.
  const config = { ...(row['install_config'] as object), install: 'head -c 200M /dev/zero > /dev/shm/filling' }
  const { exitCode, image } = await build(suite('full', { install_config: config }))
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'install'])
  assert.match(
    image.message ?? '',
    /The disk where the engine keeps images is full: .*No space left on device.*docker system df/,
  )
  assert.match(readFileSync(image.log ?? '', 'utf8'), /No space left on device/)
})

test('names the directory when the temporary files of this host have no space', {
  skip: skip === false && process.getuid?.() !== 0 ? 'needs root: mounts a file system' : skip,
}, async (t) => {
  // An installation of its own: an image that an earlier test built would be found.
  const config = { ...(row['install_config'] as object), install: 'true # small' }
  const nowhere = changeEnvironment({ TMPDIR: join(folder, 'nowhere') })
  const path = suite('small', { install_config: config })
  const told = await longhaul('images', 'build', path, '--repos', mirrors, '--base', base, '--network', 'host')
  nowhere()
  assert.equal(told.exitCode, 2)
  const said = `${told.stdout}${told.stderr}`.match(/Expected a writable directory for temporary files, got .*nowhere/g)
  assert.equal(said?.length, 1, 'one message')
  const small = join(folder, 'small')
  mkdirSync(small)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'longhaul-test', small])
  useEnvironment(t, { TMPDIR: small })
  try {
    const { exitCode, image } = await build(path)
    assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'source'])
    assert.match(image.message ?? '', new RegExp(`temporary files is full: [^]*Free space in ${small}, .*TMPDIR`))
  } finally {
    execFileSync('umount', ['-l', small])
  }
})

test('names a base image without git', { skip }, async () => {
  const bare = await withoutGit()
  const { exitCode, image } = await build(suite('git'), '--base', bare)
  assert.deepEqual([exitCode, image.did, image.stage], [2, 'failed', 'base'])
  assert.match(image.message ?? '', /Expected bash, git and tar in the base image longhaul-test\/[^]*missing: git/)
})

/** The base image after its git was removed. */
async function withoutGit(): Promise<string> {
  const container = await engine.docker.createContainer({ Image: base, Cmd: ['/bin/rm', '/usr/bin/git'] })
  try {
    await container.start()
    await container.wait()
    await container.commit({ repo: 'longhaul-test/without-git', tag: String(series) })
  } finally {
    await container.remove({ force: true })
  }
  made.push(`longhaul-test/without-git:${series}`)
  return `longhaul-test/without-git:${series}`
}
