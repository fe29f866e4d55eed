import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import type { SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import {
  PATIENT,
  type Player,
  type ContractFixture,
  type MakeFixture,
  codeOf,
  createPlayer,
  never,
  textOf,
  untilTrue,
  untimed,
} from '../../integration/sandbox-fixture.ts'

export function describeTurns(makeFixture: MakeFixture): void {
  describe('turns of a sandbox', () => {
    let fixture: ContractFixture
    let sandbox: SandboxHandle
    let player: Player

    before(async () => {
      fixture = await makeFixture('turns', { 'a/m.py': 'x = 1\n' })
      sandbox = await fixture.host.open(fixture.openInput(), never)
      player = createPlayer(fixture.host, sandbox)
    })

    after(() => fixture.dispose())

    test('the state of a new sandbox is the repository, with no file open and nothing submitted', async () => {
      const state = await fixture.host.initialState(sandbox, never)
      assert.equal(state.cwd, '/testbed')
      assert.equal(state.openFile, null)
      assert.equal(state.submitted, false)
      assert.match(state.environment, /PAGER="cat"/)
      assert.match(sandbox.startCommit, /^[0-9a-f]{40}$/)
    })

    test('a repeated turn runs once and its answer has the same bytes', async () => {
      const request = player.next('echo once >> /tmp/count; cat /tmp/count; date +%N; exit 7')
      const first = await fixture.host.runTurn(sandbox, request, never)
      const again = await fixture.host.runTurn(sandbox, request, never)
      assert.deepEqual(untimed(again), untimed(first))
      assert.equal(first.exitCode, 7)
      assert.equal((await player.play('cat /tmp/count')).text, 'once\n')
    })

    /** The story: an attempt is stopped in the middle of a command, and the next attempt of this worker asks for the same turn. */
    test('an aborted turn goes on once, and the next request receives its result over one connection', async () => {
      const request = player.next('echo begun >> /tmp/aborted; sleep 2; cat /tmp/aborted')
      const stop = new AbortController()
      const stopped = fixture.host.runTurn(sandbox, request, stop.signal)
      setTimeout(() => stop.abort(new Error('stopped')), 500)
      await assert.rejects(stopped, /stopped/)
      assert.equal(textOf(await fixture.host.runTurn(sandbox, request, never)), 'begun\n')
      assert.equal((await player.play('cat /tmp/aborted')).text, 'begun\n')
    })

    test('the worker measures the time of a turn although clocks in the sandbox lie', async () => {
      const other = await fixture.host.open(fixture.openInput({ episode: `${fixture.run}/stage/0001/clock/00` }), never)
      const liar = createPlayer(fixture.host, other)
      try {
        const lie =
          "for name in date sleep timeout; do printf '#!/bin/sh\\necho 1e18\\n' > $(command -v $name); done; date"
        assert.equal((await liar.play(lie)).text, '1e18\n')
        const before = performance.now()
        const turns = [await liar.play('sleep 100'), await liar.play('read -t 1 line < /dev/tty0; true')]
        const passed = performance.now() - before
        for (const { wallMs } of turns) assert.ok(wallMs >= 0 && wallMs <= passed, `${wallMs} of ${passed} ms`)
        const spun = await liar.play('while :; do :; done', { timeoutMs: 1000 })
        assert.equal(spun.reason, 'timeout')
        assert.ok(spun.wallMs >= 1000)
      } finally {
        await fixture.host.close(other)
      }
    })

    test('the journal answers a worker without a memory of the sandbox for a finished turn', async () => {
      const request = player.next('echo kept; date +%N')
      const first = await fixture.host.runTurn(sandbox, request, never)
      const other = await fixture.anotherHost()
      try {
        assert.deepEqual(untimed(await other.runTurn(sandbox, request, never)), untimed(first))
      } finally {
        other.dispose()
      }
    })

    // The race: a worker sends a turn and dies, or its connection does, while the command runs. The next worker requests the same
    // turn. It must neither run the turn a second time nor give up, but wait for the running one.
    test('a repeated request after a broken stream waits for the first run of the turn', async () => {
      const request = player.next('echo started >> /tmp/slow; sleep 1; echo finished >> /tmp/slow; cat /tmp/slow')
      const abandoned = fixture.host.runTurn(sandbox, request, never)
      await untilTrue(async () => (await look('cat /tmp/slow')).includes('started'))
      const other = await fixture.anotherHost()
      try {
        fixture.host.context.runners.disconnect(sandbox.name)
        const [own, foreign] = await Promise.all([abandoned, other.runTurn(sandbox, request, never)])
        assert.equal(textOf(foreign), 'started\nfinished\n')
        assert.deepEqual(untimed(own), untimed(foreign))
      } finally {
        other.dispose()
      }
    })

    test('a cancelled turn rejects with the caller’s reason and can be requested afterwards', async () => {
      const controller = new AbortController()
      const request = player.next('sleep 3; echo survived')
      const running = fixture.host.runTurn(sandbox, request, controller.signal)
      const reason = new Error('cancelled')
      setTimeout(() => controller.abort(reason), 150)
      await assert.rejects(running, (error) => error === reason)
      assert.equal(textOf(await fixture.host.runTurn(sandbox, request, never)), 'survived\n')
    })

    test('refuses a fence below the highest one seen and runs nothing', async () => {
      await player.play('true', { fence: 5 })
      const stale = player.next('touch /tmp/stale', { fence: 4 })
      await assert.rejects(fixture.host.runTurn(sandbox, stale, never), (error) => codeOf(error) === 'Sandbox.Fenced')
      const { text } = await player.play('ls /tmp/stale 2>&1', { fence: 5, turn: stale.turn })
      assert.match(text, /No such file/)
    })

    test('reports a conflict for another command or token of a recorded turn', async () => {
      const request = player.next('echo a', { fence: 5 })
      await fixture.host.runTurn(sandbox, request, never)
      for (const changed of [{ command: 'echo b' }, { token: 'another' }]) {
        await assert.rejects(
          fixture.host.runTurn(sandbox, { ...request, ...changed }, never),
          (error) => codeOf(error) === 'Sandbox.JournalConflict',
        )
      }
    })

    test('a command that ignores TERM and its child are gone when a turn past its deadline is answered', async () => {
      const command = `trap '' TERM; (trap '' TERM; exec sleep 4242) & echo before; sleep 4242`
      const result = await player.play(command, { fence: 5, timeoutMs: 3000 })
      assert.equal(result.reason, 'timeout')
      assert.equal(result.exitCode, null)
      assert.equal(result.text, 'before\n')
      const left = await player.play('grep -l 4242 /proc/[0-9]*/cmdline | grep -v self; true', { fence: 5 })
      assert.doesNotMatch(left.text, /proc\/\d+\/cmdline\n.*proc/s)
      assert.equal((await player.play('ps ax | grep -c "[s]leep 4242"', { fence: 5 })).text, '0\n')
    })

    test('directory, exported variables and umask carry over to the next turn, unexported variables do not', async () => {
      await player.play("cd a; export GREETING='it'\"'\"'s  two  spaces'; unset LESS; plain=1; umask 027", { fence: 5 })
      const { text, state } = await player.play('pwd; echo "$GREETING"; echo "[$plain$LESS]"; umask', { fence: 5 })
      assert.equal(text, "/testbed/a\nit's  two  spaces\n[]\n0027\n")
      assert.equal(state.cwd, '/testbed/a')
      assert.equal(state.umask, '0027')
      await player.play('umask 022; cd /testbed', { fence: 5 })
    })

    test('state is saved on exit, set -e and a syntax error; kill -9 keeps the previous state', async () => {
      await player.play('cd /tmp; exit 3', { fence: 5 })
      assert.equal((await player.play('pwd', { fence: 5 })).text, '/tmp\n')
      assert.equal((await player.play('set -e; cd /usr; false; cd /', { fence: 5 })).state.cwd, '/usr')
      const broken = await player.play('if then', { fence: 5 })
      assert.equal(broken.state.cwd, '/usr')
      assert.match(broken.text, /^bash: .*syntax error/)
      assert.doesNotMatch(broken.text, /\.lh/)
      const killed = await player.play('cd /; kill -9 $$', { fence: 5 })
      assert.equal(killed.reason, 'signal')
      assert.equal(killed.exitCode, 137)
      assert.equal(killed.state.cwd, '/usr')
    })

    test('the next command runs in the repository and says so after the current directory was removed', async () => {
      await player.play('mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone', { fence: 5 })
      const { text } = await player.play('pwd', { fence: 5 })
      assert.match(text, /^Notice: the directory .*\n\/testbed\n$/)
    })

    test('messages of the shell contain neither the journal nor anything random', async () => {
      const { text } = await player.play('no-such-program; env; set', { fence: 5 })
      assert.match(text, /^bash: line 1: no-such-program: command not found\n/)
      assert.doesNotMatch(text.replaceAll(/^lh_.*|^LH_.*|^BASH_.*/gm, ''), /token\d/)
    })

    test('a long output keeps half of its limit from the head and half from the tail, and counts the rest', async () => {
      const { head, tail, omittedBytes, outputBytes } = await player.play('seq 1 5000', {
        fence: 5,
        maxOutputBytes: 100,
      })
      const all = Array.from({ length: 5000 }, (_, index) => `${index + 1}\n`).join('')
      assert.equal(Buffer.from(head).toString(), all.slice(0, 50))
      assert.equal(Buffer.from(tail).toString(), all.slice(-50))
      assert.equal(outputBytes, all.length)
      assert.equal(omittedBytes, all.length - 100)
    })

    test('endless output stops at the limit, and the sandbox continues', async () => {
      const { reason, outputBytes } = await player.play('yes', { fence: 5 })
      assert.equal(reason, 'output-limit')
      assert.ok(outputBytes >= 64 * 1024 * 1024)
      assert.equal((await player.play('echo alive', { fence: 5 })).text, 'alive\n')
    })

    test('a heredoc of a quarter megabyte with quotes, backslashes and UTF-8 keeps its bytes', async () => {
      const line = `\\ \\n '"$x" %s @ Grüße \t end\n`
      const body = line.repeat(Math.ceil(250_000 / line.length))
      await player.play(`cat > /tmp/big << 'EOF'\n${body}EOF\n`, { fence: 5 })
      await player.play(`cat > /tmp/small << 'EOF'\n${line}EOF`, { fence: 5 })
      const { text } = await player.play('wc -c < /tmp/big; sed 1q /tmp/big; cat /tmp/small', { fence: 5 })
      assert.equal(text, `${Buffer.byteLength(body)}\n${line}${line}`)
    })

    test('a command with a NUL is not run, is reported and is journaled like any turn', async () => {
      const { text, exitCode } = await player.play('echo a\0b', { fence: 5 })
      assert.equal(text, 'The command holds a NUL byte and was not run.\n')
      assert.equal(exitCode, 1)
    })

    test('stdin is empty, and a background process does not delay the turn', async () => {
      const { text } = await player.play('cat; sleep 60 & echo done', { fence: 5 })
      assert.equal(text, 'done\n')
    })

    test('bytes that are no text are returned unchanged', async () => {
      const { head } = await player.play(String.raw`printf '\377\000\033[1m\r\n'`, { fence: 5 })
      assert.deepEqual([...head], [0xff, 0, 0x1b, 0x5b, 0x31, 0x6d, 0x0d, 0x0a])
    })

    test('a container that is killed during a turn fails it as Sandbox.Lost', async () => {
      const doomed = await fixture.host.open(fixture.openInput({ placement: 2 }), never)
      const running = fixture.host.runTurn(
        doomed,
        { ...player.next('sleep 6000', PATIENT), turn: 0, after: null },
        never,
      )
      running.catch(() => undefined)
      await sleep(300)
      await fixture.kill(doomed.name)
      await assert.rejects(running, (error) => codeOf(error) === 'Sandbox.Lost')
      await fixture.host.close(doomed)
      await fixture.host.close(doomed)
    })

    function look(command: string): Promise<string> {
      return fixture.probe(sandbox, command)
    }
  })
}
