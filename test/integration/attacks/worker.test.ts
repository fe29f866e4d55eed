/**
 * An agent tries to stop or to fill the worker that serves it. Each of its messages is bounded before the worker buffers it, and its
 * neighbours go on.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { listSandboxes } from '../../../src/adapters/docker/container/list-sandboxes.ts'
import { MAX_STATE_BYTES } from '../../../src/adapters/docker/sandbox/runner-wire.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import { createAttackWorld } from '../../support/attacks/world.ts'
import { ATTACKS } from '../../support/hostile/play-hostile.ts'
import { type SandboxFixture, createPlayer, createSandboxFixture, lastTurn, never } from '../sandbox-fixture.ts'

let fixture: SandboxFixture
let placement = 1

before(async () => {
  fixture = await createSandboxFixture('worker', { 'm.py': 'x = 1\n' })
})

after(() => fixture.dispose())

async function newSandbox(): ReturnType<SandboxFixture['host']['open']> {
  placement += 1
  return fixture.host.open(fixture.openInput({ placement }), never)
}

test('an environment of a megabyte is not kept; the turn says so and the sandbox keeps its previous state', async () => {
  const sandbox = await newSandbox()
  const player = createPlayer(fixture.host, sandbox)
  await player.play('export KEPT=yes; cd /tmp')
  const big = await player.play(
    'x=$(head -c 10000 /dev/zero | tr "\\0" x); i=0; while [ $i -lt 100 ]; do export V$i="$x"; i=$((i + 1)); done',
    { timeoutMs: 120_000 },
  )
  assert.match(big.text, /Notice: the shell's environment and directory take \d+ bytes; at most 65536 are kept/)
  assert.equal(big.exitCode, 0)
  assert.ok(big.state.environment.length < MAX_STATE_BYTES)
  assert.equal((await player.play('echo "$KEPT $V7"; pwd')).text, 'yes \n/tmp\n')
  await fixture.host.close(sandbox)
})

test('an environment larger than the runner reads leaves room for the state of later turns', async () => {
  const sandbox = await newSandbox()
  const { play } = createPlayer(fixture.host, sandbox)
  await play('cd /tmp')
  await play(
    'x=$(head -c 100000 /dev/zero | tr "\\0" x); i=0; while [ $i -lt 100 ]; do export V$i="$x"; i=$((i + 1)); done',
    {
      timeoutMs: 120_000,
    },
  )
  assert.equal((await play('pwd; cd /usr')).text, '/tmp\n')
  assert.equal((await play('pwd')).text, '/usr\n')
  await fixture.host.close(sandbox)
})

test('the listing of 25,000 new files with long names becomes one hash that changes with the tree', async () => {
  const sandbox = await newSandbox()
  const player = createPlayer(fixture.host, sandbox)
  const name = 'n'.repeat(200)
  await player.play(`mkdir ${name}; cd ${name}; i=0; while [ $i -lt 25000 ]; do : >${name}$i; i=$((i + 1)); done`, {
    timeoutMs: 60_000,
  })
  const hash = await fixture.host.treeHash(sandbox, lastTurn(sandbox), never)
  assert.equal(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), hash)
  await player.play(`echo changed >${name}24999`)
  assert.notEqual(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), hash)
  await fixture.host.close(sandbox)
})

// The story: the engine opens a descriptor for each level that it removes, met its own limit, answered no other request until then, and
// never removed the container.
test('the engine removes a container with a folder of 20,000 levels', async () => {
  const sandbox = await newSandbox()
  const { play } = createPlayer(fixture.host, sandbox)
  const made = await play(
    `python3 -c 'import os\nfor _ in range(20_000): os.mkdir("d"); os.chdir("d")\nopen("leaf", "w").close()'; echo made`,
    { timeoutMs: 120_000 },
  )
  assert.equal(made.text, 'made\n')
  await fixture.host.close(sandbox)
  const left = await listSandboxes({ engine: fixture.engine, run: fixture.run })
  assert.ok(!left.some(({ name }) => name === sandbox.name), 'its container is left')
})

/** What lies in the tree when the patch is taken, beside an honest change. */
const TREES: [what: string, command: string][] = [
  [
    'pipes, sockets and devices',
    'mkfifo p .git/p; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'s\')"; mknod d c 1 5; ln -s /dev/zero z; ln -s /proc/1/mem m',
  ],
  [
    'links that lead to themselves',
    'ln -s a b; ln -s b a; ln -s . c; mkdir l; ln -s .. l/up; ln -s /proc/self/root l/root',
  ],
  [
    'a list of borrowed objects that leads back',
    'echo /testbed/.git/objects > .git/objects/info/alternates; for i in 1 2 3 4 5 6 7; do mkdir -p /tmp/o$i/info; echo /tmp/o$((i + 1)) > /tmp/o$i/info/alternates; done; echo /tmp/o1 >> .git/objects/info/alternates',
  ],
  [
    'a hundred thousand packed references',
    'h=$(git rev-parse HEAD); seq 1 100000 | sed "s|^|$h refs/heads/b|" | LC_ALL=C sort > .git/packed-refs',
  ],
  [
    'packs that are none',
    'mkdir -p .git/objects/pack; for i in 1 2 3; do head -c 2000000 /dev/urandom > .git/objects/pack/pack-$i$i.pack; head -c 2000000 /dev/urandom > .git/objects/pack/pack-$i$i.idx; done',
  ],
  ['objects that are damaged', 'find .git/objects -type f -exec sh -c \'chmod u+w "$1"; echo x > "$1"\' sh {} \\;'],
  ['a Git folder outside of the repository', 'mv .git /tmp/elsewhere; echo "gitdir: /tmp/elsewhere" > .git'],
  ['a link in the place of the folder of Git', 'mv .git /tmp/elsewhere; ln -s /tmp/elsewhere .git'],
  [
    'settings that name another tree',
    'git config core.worktree /etc; git config core.bare true; git config core.ignoreCase true; git config core.precomposeUnicode true; git config core.bigFileThreshold 1; git config core.compression 9; git config pack.threads 9999; git config core.fsyncMethod batch; git config index.version 4; git config core.splitIndex true; git config core.untrackedCache true; git config feature.manyFiles true',
  ],
  [
    'an extension that Git does not know',
    'git config core.repositoryFormatVersion 1; git config extensions.nonsense true',
  ],
  [
    'submodules within one another and a tree of another repository',
    'git init -q s; git -C s -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git init -q s/t; git -C s/t -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git worktree add -q w HEAD; mkdir u; echo "gitdir: ../u" > u/.git',
  ],
  [
    'names with ends of lines, quotes and bytes that are no text',
    'printf x > "$(printf "a\\nb")"; printf x > "$(printf "\\377\\376")"; printf x > "$(printf "\\033[2J\\t\\001")"; printf x > "-rf"; printf x > " "; printf x > "$(printf "diff --git a/m.py b/m.py\\n+y")"; printf x > ...; mkdir "*"; printf x > "*/?"',
  ],
  [
    'names that a file system of others joins',
    'printf x > .GIT; printf x > git~1; mkdir .giT; printf x > "$(printf ".g\\342\\200\\214it")"; printf x > M.py; printf x > "m.py."',
  ],
  [
    'paths of 4,000 bytes',
    'n=$(head -c 250 /dev/zero | tr "\\0" n); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do mkdir $n && cd $n && printf x > f; done; cd /testbed',
  ],
  [
    'files and folders that may not be read',
    'mkdir x; printf x > x/y; chmod 000 x x/y m.py; chmod 000 .git/objects .git/refs',
  ],
]

for (const [what, command] of TREES) {
  test(`the capture of a tree with ${what} ends in time, or fails as the agent's doing, and leaves no process`, async (t) => {
    const sandbox = await newSandbox()
    const { play } = createPlayer(fixture.host, sandbox)
    const made = await play(`echo 'x = 2' > m.py\n${command}`, { timeoutMs: 60_000 })
    assert.equal(made.reason, 'exit', made.text)
    const begun = performance.now()
    const { patch, failure } = await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
    const text = Buffer.from(patch).toString('latin1')
    t.diagnostic(`${Math.round(performance.now() - begun)} ms, ${patch.length} bytes, ${failure ?? 'captured'}`)
    if (failure === undefined) assert.match(text, /^\+x = 2\r?$/m)
    else assert.equal(patch.length, 0)
    assert.match(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), /^[0-9a-f]{64}$/)
    const { Processes: processes } = await fixture.engine.docker.getContainer(sandbox.name).top()
    assert.deepEqual(
      processes.filter((fields: string[]) => fields.some((field) => /sleep 300|flood/.test(field))),
      [],
    )
    await fixture.host.close(sandbox)
  })
}

/** What Git waits for without an end. */
const WAITS: [what: string, command: string][] = [
  ['a pipe in the place of .gitattributes', 'mkfifo .gitattributes'],
  ['a pipe in the place of further attributes', 'mkdir -p .git/info; mkfifo .git/info/attributes'],
  ['a pipe in the place of the index', 'rm .git/index; mkfifo .git/index'],
  ['a pipe in the place of the settings', 'rm .git/config; mkfifo .git/config'],
  ['a pipe in the place of borrowed objects', 'mkfifo .git/objects/info/alternates'],
  ['a filter that sleeps', 'echo "*.py filter=f" >.gitattributes; git config filter.f.clean "sleep infinity"'],
  [
    'a filter that computes',
    'echo "*.py filter=f" >.gitattributes; git config filter.f.clean "while :; do :; done; cat"',
  ],
  [
    'a filter that stops Git',
    'echo "*.py filter=f" >.gitattributes; git config filter.f.clean "kill -STOP \\$PPID; sleep infinity"',
  ],
  [
    'a filter that lets Git go on now and then',
    'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >f$i.py; done; echo "*.py filter=f" >.gitattributes; git config filter.f.clean "sleep 15; head -c 2000000 /dev/urandom"',
  ],
]

test('the capture reports no patch and the reason when Git waits forever', async () => {
  const captured = await Promise.all(
    WAITS.map(async ([what, command]) => {
      const sandbox = await newSandbox()
      const made = await createPlayer(fixture.host, sandbox).play(`echo 'x = 2' > m.py\n${command}`)
      assert.deepEqual([made.reason, made.text], ['exit', ''], what)
      const { patch, failure } = await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
      assert.equal(patch.length, 0, what)
      assert.match(await fixture.host.treeHash(sandbox, lastTurn(sandbox), never), /^[0-9a-f]{64}$/)
      await fixture.host.close(sandbox)
      return [what, failure]
    }),
  )
  assert.deepEqual(
    captured,
    WAITS.map(([what]) => [what, 'blocked']),
  )
})

test('captures the patch although a filter is slow for each of many files', async () => {
  const sandbox = await newSandbox()
  const files = 'i=0; while [ $i -lt 50 ]; do echo $i >f$i.py; i=$((i + 1)); done'
  const settings = 'echo "*.py filter=f" >.gitattributes; git config filter.f.clean "sleep 0.5; cat"'
  await createPlayer(fixture.host, sandbox).play(`echo 'x = 2' > m.py; ${files}; ${settings}`)
  const { patch, failure } = await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
  await fixture.host.close(sandbox)
  assert.equal(failure, undefined)
  assert.match(Buffer.from(patch).toString(), /^\+49$[^]*^\+x = 2$/m)
})

/** Remotes of a partial clone, each with a transport that leaves its name in /tmp/ran. */
const TRANSPORTS = `mkdir /tmp/ran
for helper in mine none ''; do
  printf '#!/bin/sh\\n: >"/tmp/ran/helper-%s"\\n' "$helper" >"/usr/local/bin/git-remote-$helper"
  chmod 755 "/usr/local/bin/git-remote-$helper"
done
promise() {
  git -C "$1" config core.repositoryFormatVersion 1
  git -C "$1" config extensions.partialClone ext
  git -C "$1" config protocol.allow always
  for name in ext upload mine none empty; do git -C "$1" config remote.$name.promisor true; done
  git -C "$1" config remote.ext.url 'ext::sh -c :>/tmp/ran/ext'
  git -C "$1" config remote.upload.url /testbed
  git -C "$1" config remote.upload.uploadpack ': >/tmp/ran/upload; false'
  git -C "$1" config remote.mine.vcs mine
  git -C "$1" config remote.mine.url x
  git -C "$1" config remote.none.url none::x
  git -C "$1" config remote.empty.url ::x
  tree=$(git -C "$1" rev-parse 'HEAD^{tree}')
  rm "$1/.git/objects/\${tree%\${tree#??}}/\${tree#??}"
}`
const EVERY_TRANSPORT = 'ext\nhelper-\nhelper-mine\nhelper-none\nupload\n'

const PARTIAL: [what: string, command: string][] = [
  ['a partial clone', 'promise .'],
  [
    'a partial clone as a submodule',
    'git init -q s; cp m.py s; git -C s add m.py; git -C s -c user.name=a -c user.email=a@b commit -qm x; git add s 2>/dev/null; promise s',
  ],
  [
    'a partial clone, and a Git that does not know GIT_NO_LAZY_FETCH',
    'promise .; mv /usr/bin/git /usr/bin/git.real; printf \'#!/bin/sh\\nunset GIT_NO_LAZY_FETCH\\nexec /usr/bin/git.real "$@"\\n\' >/usr/bin/git; chmod 755 /usr/bin/git',
  ],
]

for (const [what, command] of PARTIAL) {
  test(`runs no transport of the agent when it compares and captures ${what}`, async () => {
    const sandbox = await newSandbox()
    const { play } = createPlayer(fixture.host, sandbox)
    const made = await play(`${TRANSPORTS}\necho 'x = 2' > m.py\n${command}`)
    assert.deepEqual([made.reason, made.text], ['exit', ''])
    await fixture.host.treeHash(sandbox, lastTurn(sandbox), never)
    await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
    const ran = async (before = ':'): Promise<string> =>
      fixture.probe(sandbox, `cd /testbed; { ${before}; } >/dev/null 2>&1; ls -1 /tmp/ran`)
    assert.equal(await ran(), '')
    // Each does run where nothing keeps Git from it.
    assert.equal(await ran('git -C s diff HEAD || git diff HEAD'), EVERY_TRANSPORT)
    await fixture.host.close(sandbox)
  })
}

// `npm run bench:hostile` measures what this only plays: throughput, event loop and memory.
test('no attack on the worker earns a reward, the honest agent beside it does, and the worker continues', async () => {
  const world = await createAttackWorld('hostile')
  const stray: unknown[] = []
  const onStray = (error: unknown): void => void stray.push(error)
  process.on('uncaughtException', onStray)
  process.on('unhandledRejection', onStray)
  try {
    const attacks = Object.entries(ATTACKS)
    const lane = async (): Promise<void> => {
      for (let next = attacks.shift(); next !== undefined; next = attacks.shift()) {
        const [name, commands] = next
        const verdict = await world.attack([...commands]).then(
          (result) => result.verdict.kind,
          // A container that the attack has broken is lost, and nothing else is.
          (error: unknown) => (isLonghaulError(error) ? error.code : String(error)),
        )
        assert.ok(
          ['unresolved', 'could-not-grade', 'Sandbox.Lost', 'Sandbox.Ended'].includes(verdict),
          `${name}: ${verdict}`,
        )
      }
    }
    const honest = async (): Promise<void> => {
      const { verdict, reward } = await world.attack(["sed -i 's/a - b/a + b/' calc.py"])
      assert.deepEqual([verdict.kind, reward?.outcome], ['resolved', 1])
    }
    await Promise.all([lane(), lane(), honest()])
    await honest()
    assert.deepEqual(stray, [])
  } finally {
    process.off('uncaughtException', onStray)
    process.off('unhandledRejection', onStray)
    await world.dispose()
  }
})
