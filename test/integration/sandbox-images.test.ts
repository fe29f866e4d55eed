import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'

import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import { ignoreGone } from '../../src/adapters/docker/engine/engine-errors.ts'
import {
  type Player,
  type SandboxFixture,
  codeOf,
  createPlayer,
  lastTurn,
  createSandboxFixture,
  never,
  repositoryTar,
  untimed,
} from './sandbox-fixture.ts'

// Images without bash, without coreutils, without anything but one static program. Alpine's shell and tools are the same
// program, built against another C library.

const FILES = { 'pkg/m.py': 'x = 1\ny = 2\nz = 3\n' }

let fixture: SandboxFixture
let placement = 100
const images: string[] = []

before(async () => {
  fixture = await createSandboxFixture('images', FILES)
})

after(async () => {
  for (const image of images) {
    await fixture.engine.docker.getImage(image).remove({ force: true }).catch(ignoreGone)
  }
  await fixture.dispose()
})

test('Debian without bash runs turns, state, tools, deadline and capture in its sh', async () => {
  const image = await withoutFiles('no-bash', ['/bin/bash', '/usr/bin/bash'])
  const player = await openWith(image)
  assert.equal((await player.play('echo ${BASH_VERSION-none}')).text, 'none\n')
  await exercise(player)
})

test('Debian without awk gives one error that names it', async () => {
  const image = await withoutFiles('no-awk', ['/usr/bin/awk', '/bin/awk'])
  await assert.rejects(openWith(image), isUnsuitableFor('program awk'))
})

test('a missing repository gives one error that names it', async () => {
  await assert.rejects(openWith(fixture.image, '/nowhere'), (error: Error) => {
    assert.match(String(codeOf(error)), /^Sandbox\./)
    assert.match(JSON.stringify(error), /nowhere/)
    return true
  })
})

test('an image with only busybox gives an error that names git, and works once git is there', async (context) => {
  const busybox = findBusybox()
  if (busybox === null) return context.skip('no busybox-static to be had here')
  const bare = await importRootfs('busybox', busybox, [])
  await assert.rejects(openWith(bare), isUnsuitableFor('program git'))
  const player = await openWith(await importRootfs('busybox-git', busybox, withLibraries('git')))
  assert.equal(
    (await player.play('readlink -f /proc/$$/exe; ls /usr/bin/env /bin/bash 2>/dev/null')).text,
    '/bin/busybox\n',
  )
  await exercise(player)
})

/** What an agent does in a sandbox, and what the journal promises about it. */
async function exercise(player: Player): Promise<void> {
  await player.play("cd pkg; export GREETING='it'\"'\"'s  two  spaces'; umask 027")
  const { text, state } = await player.play('pwd; echo "$GREETING"; umask; echo "$PAGER"')
  assert.equal(text, "/testbed/pkg\nit's  two  spaces\n0027\ncat\n")
  assert.equal(state.cwd, '/testbed/pkg')
  await player.play('cd /testbed; umask 022')

  assert.equal((await player.play('cd /tmp; exit 3')).exitCode, 3)
  assert.equal((await player.play('pwd; cd /testbed')).text, '/tmp\n')
  const killed = await player.play('cd /; kill -9 $$')
  assert.deepEqual([killed.exitCode, killed.reason, killed.state.cwd], [137, 'signal', '/testbed'])
  assert.notEqual((await player.play('if then')).exitCode, 0)

  const opened = await player.play('open pkg/m.py 2; edit 2:2 "y = 22"')
  assert.match(opened.text, /\n2:y = 22\n3:z = 3\n$/)
  assert.equal(opened.state.openFile, '/testbed/pkg/m.py')
  assert.match(
    (await player.play("replace 'z = 3' 'z = 33'; search_file z")).text,
    /1 match in pkg\/m.py:\n3:z = 33\n$/,
  )

  const bytes = await player.play(String.raw`printf '\377\000\033[1m\r\n'; echo err >&2; cat`)
  assert.deepEqual([...bytes.head], [0xff, 0, 0x1b, 0x5b, 0x31, 0x6d, 0x0d, 0x0a, ...Buffer.from('err\n')])
  const long = await player.play('seq 1 5000', { maxOutputBytes: 100 })
  const all = Array.from({ length: 5000 }, (_, index) => `${index + 1}\n`).join('')
  assert.equal(Buffer.from(long.head).toString(), all.slice(0, 50))
  assert.equal(Buffer.from(long.tail).toString(), all.slice(-50))

  const request = player.next('echo once >> /tmp/count; cat /tmp/count')
  const first = await fixture.host.runTurn(player.sandbox, request, never)
  fixture.host.context.runners.disconnect(player.sandbox.name)
  assert.deepEqual(untimed(await fixture.host.runTurn(player.sandbox, request, never)), untimed(first))
  assert.equal((await player.play('cat /tmp/count')).text, 'once\n')

  const escapes = `setsid sleep 4801 & (setsid env -i /bin/sleep 4802 &) ; trap '' TERM; sleep 4803; sleep 4804`
  assert.equal((await player.play(escapes, { timeoutMs: 500 })).reason, 'timeout')
  assert.doesNotMatch(
    (await player.play('for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; done')).text,
    /sleep 480\d/,
  )

  const { patch } = await fixture.host.capture(player.sandbox, { mode: 'all', after: lastTurn(player.sandbox) }, never)
  assert.match(Buffer.from(patch).toString(), /^-y = 2\n-z = 3\n\+y = 22\n\+z = 33\n/m)
  assert.equal((await player.play('echo on')).text, 'on\n')
}

async function openWith(image: string, repoDir = '/testbed'): Promise<Player> {
  placement += 1
  return createPlayer(fixture.host, await fixture.host.open(fixture.openInput({ placement, image, repoDir }), never))
}

function isUnsuitableFor(what: string): (error: Error) => boolean {
  return (error) => {
    assert.equal(codeOf(error), 'Sandbox.ImageUnsuitable', error.message)
    assert.match(error.message, new RegExp(what))
    return true
  }
}

/** The fixture's image without some of its files. */
async function withoutFiles(name: string, files: string[]): Promise<string> {
  const { docker } = fixture.engine
  const container = await docker.createContainer({ Image: fixture.image, Cmd: ['/bin/rm', '-f', ...files] })
  try {
    await container.start()
    await container.wait()
    const [repo, tag] = [`longhaul-test/${name}`, String(process.pid)]
    await container.commit({ repo, tag })
    images.push(`${repo}:${tag}`)
    return `${repo}:${tag}`
  } finally {
    await container.remove({ force: true, v: true })
  }
}

async function importRootfs(name: string, busybox: string, programs: string[]): Promise<string> {
  const root = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  try {
    for (const folder of ['bin', 'etc', 'proc', 'dev', 'sys', 'root', 'tmp', 'testbed']) mkdirSync(join(root, folder))
    writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n')
    copyFileSync(busybox, join(root, 'bin/busybox'))
    const applets = execFileSync(busybox, ['--list']).toString().trim().split('\n')
    for (const applet of applets) if (applet !== 'busybox') symlinkSync('busybox', join(root, 'bin', applet))
    for (const program of programs) {
      mkdirSync(join(root, dirname(program)), { recursive: true })
      copyFileSync(realpathSync(program), join(root, program))
    }
    const tar = execFileSync('tar', ['--owner=0', '--group=0', '-C', root, '-cf', '-', '.'], { maxBuffer: 1 << 28 })
    const base = `longhaul-test/${name}-base:${process.pid}`
    const [repo, tag] = base.split(':') as [string, string]
    const stream = await fixture.engine.docker.importImage(Readable.from([tar]), { repo, tag })
    for await (const _ of stream) continue
    images.push(base)
    const image = `longhaul-test/${name}:${process.pid}`
    await buildTaskImage({ engine: fixture.engine, base, tag: image, repoTar: repositoryTar(FILES), labels: {} })
    images.unshift(image)
    return image
  } finally {
    rmSync(root, { recursive: true })
  }
}

/** The program and what it is linked to, by their paths. */
function withLibraries(name: string): string[] {
  const program = execFileSync('sh', ['-c', `command -v ${name}`])
    .toString()
    .trim()
  const linked = execFileSync('sh', ['-c', 'ldd "$1"', 'sh', program]).toString()
  return [program, ...[...linked.matchAll(/(\/\S+) \(/g)].map(([, path]) => path as string)]
}

/** The machine's own, else from the distribution's package. */
function findBusybox(): string | null {
  if (existsSync('/bin/busybox')) return '/bin/busybox'
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  after(() => rmSync(folder, { recursive: true }))
  try {
    const script = 'apt-get download busybox-static && dpkg-deb -x busybox-static*.deb .'
    execFileSync('sh', ['-c', script], { cwd: folder, stdio: 'ignore', timeout: 60_000 })
    return join(folder, 'bin/busybox')
  } catch {
    return null
  }
}
