import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'

import type { SandboxHandle } from '../../../src/contracts/sandbox.types.ts'
import {
  type Player,
  type ContractFixture,
  type MakeFixture,
  createPlayer,
  lastTurn,
  never,
  untimed,
} from '../../integration/sandbox-fixture.ts'
import { eventually } from '../hang.ts'

export function describeProcesses(makeFixture: MakeFixture): void {
  describe('processes of a sandbox', () => {
    let fixture: ContractFixture
    let sandbox: SandboxHandle
    let player: Player

    before(async () => {
      fixture = await makeFixture('processes', { 'm.py': 'x = 1\n' })
      sandbox = await fixture.host.open(fixture.openInput(), never)
      player = createPlayer(fixture.host, sandbox)
    })

    after(() => fixture.dispose())

    test('each command leads its own session and group and has only its three files open', async () => {
      const command =
        'set -- $(cut -d" " -f1,5,6 /proc/$$/stat); echo $(($1 - $$)) $(($2 - $$)) $(($3 - $$)); ls /proc/$$/fd'
      const first = await player.play(command)
      assert.equal(first.text, '0 0 0\n0\n1\n2\n')
      assert.equal((await player.play('readlink /proc/$$/fd/0; wc -c < /dev/stdin')).text, '/dev/null\n0\n')
    })

    test('stdout and stderr of several processes form one stream in the order of writing', async () => {
      const { text } = await player.play(
        'for i in 1 2 3; do echo out$i; echo err$i >&2; sh -c "echo child$i >&2"; printf "half$i " >&2; done',
      )
      assert.equal(text, [1, 2, 3].map((i) => `out${i}\nerr${i}\nchild${i}\nhalf${i} `).join(''))
    })

    test('a short output keeps every byte but NUL, with and without a final newline, and the mark of the journal', async () => {
      const all = Buffer.from(Array.from({ length: 255 }, (_, index) => index + 1))
      const octal = [...all].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
      for (const end of ['', '\\n', '\\036', '\\036\\n', '\\000', '\\n\\n']) {
        const { head } = await player.play(`printf '${octal}${end}'`)
        const expected = Buffer.concat([all, Buffer.from(JSON.parse(`"${unescape(end)}"`) as string)])
        assert.deepEqual(Buffer.from(head), expected, end)
      }
    })

    test('random output of any size is kept whole, or as exactly its head and tail', async () => {
      for (const size of [0, 1, 2047, 2048, 2049, 16_000, 16_001, 300_000]) {
        const { head, tail, outputBytes, omittedBytes } = await player.play(
          `head -c ${size} /dev/urandom | tee /tmp/random; sleep 0`,
        )
        const whole = Buffer.from(await fixture.probe(sandbox, 'base64 -w 0 /tmp/random'), 'base64')
        assert.equal(outputBytes, size)
        const half = size > 16_000 ? 8000 : size
        assert.equal(sha(head), sha(whole.subarray(0, half)), `head of ${size}`)
        assert.equal(sha(tail), sha(size > 16_000 ? whole.subarray(-8000) : Buffer.alloc(0)), `tail of ${size}`)
        assert.equal(omittedBytes, size - head.length - tail.length)
      }
    })

    test('a background process keeps running, and its output after the end is no part of the turn', async () => {
      const request = player.next('(sleep 0.3; echo late; sleep 4300) & echo early')
      const first = await fixture.host.runTurn(sandbox, request, never)
      assert.equal(Buffer.from(first.head).toString(), 'early\n')
      await untilAlive('sleep 4300')
      assert.deepEqual(untimed(await fixture.host.runTurn(sandbox, request, never)), untimed(first))
      assert.equal(await alive('sleep 4300'), 1)
    })

    test('past the deadline, escaped processes are gone and the work of earlier turns stays', async () => {
      await player.play('setsid sleep 4400 & setsid env -i sleep 4401 &')
      await untilAlive('sleep 4400')
      await untilAlive('sleep 4401')
      const escapes = [
        'setsid sleep 4501 &',
        '(setsid sh -c "sleep 4502 & sleep 4503 &" &)',
        'setsid env -i /bin/sleep 4504 &',
        'env -i setsid setsid /bin/sleep 4505 &',
        'setsid sh -c "trap \'\' TERM HUP; sleep 4506; sleep 4507" &',
        'su -s /bin/sh nobody -c "setsid sleep 4508 &" 2>/dev/null;',
        'python3 -c "import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  time.sleep(4509)" &',
      ]
      const { reason } = await player.play(`${escapes.join('\n')}\nsleep 4500`, { timeoutMs: 700 })
      assert.equal(reason, 'timeout')
      for (let number = 4500; number <= 4509; number += 1) assert.equal(await alive(String(number)), 0, `${number}`)
      assert.equal(await alive('sleep 4400'), 1)
      assert.equal(await alive('sleep 4401'), 1)
      assert.equal((await player.play('echo on')).text, 'on\n')
    })

    test('a turn is over at once when a process ends in time although its group is left', async () => {
      const { reason, exitCode } = await player.play('(trap "" TERM; sleep 4600) & exit 3', { timeoutMs: 60_000 })
      assert.deepEqual([reason, exitCode], ['exit', 3])
      await untilAlive('sleep 4600')
    })

    test('distinguishes exit 137 by the command, by a signal and by the memory limit', async () => {
      const said = await player.play('exit 137')
      assert.deepEqual([said.exitCode, said.reason, said.oomKilled], [137, 'exit', false])
      const killed = await player.play('kill -9 $$')
      assert.deepEqual([killed.exitCode, killed.reason, killed.oomKilled], [137, 'signal', false])
      const grow = `python3 -c 'x = bytearray(700 << 20)'`
      const child = await player.play(grow)
      assert.deepEqual([child.exitCode, child.reason, child.oomKilled], [137, 'exit', true])
      assert.equal((await player.play('echo fine')).oomKilled, false)
    })

    test('keeps the state after exec, an exported function and a shell that shadows its own commands', async () => {
      await player.play('cd /usr; export A=1')
      const replaced = await player.play('cd /; export A=2; exec true')
      assert.deepEqual([replaced.exitCode, replaced.state.cwd], [0, '/usr'])
      await player.play('printf() { :; }; pwd() { echo /nowhere; }; read() { :; }; umask() { :; }; cd /var; export A=3')
      const { text, state } = await player.play('echo "$A $(pwd)"')
      assert.equal(text, '3 /var\n')
      assert.equal(state.cwd, '/var')
    })

    // A sandbox is swept before its patch is captured. Files on its disk may lie, and processes may fork during the sweep.
    test('no process is left after the sweep although the agent fakes names, hides and forks', async () => {
      await player.play(
        'sleep 4700 & (exec -a "/.lh-runner/runner init 10 12" sleep 4701) & env -i LH_TURN=- setsid sleep 4702 & sh -c \'while :; do sleep 0.001 & wait $!; done\' &',
      )
      await fixture.host.capture(sandbox, { mode: 'all', after: lastTurn(sandbox) }, never)
      const left = await fixture.probe(sandbox, 'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; echo; done')
      assert.doesNotMatch(left, /470\d|sleep 0\.001|while :/)
      assert.equal(await fixture.isRunning(sandbox.name), true)
      assert.equal(left.match(/runner init/g)?.length, 1)
      assert.equal((await player.play('echo on')).text, 'on\n')
    })

    /** A background process may begin its program after the end of its turn, on a busy machine much later. */
    async function untilAlive(words: string): Promise<void> {
      await eventually(async () => {
        assert.equal(await alive(words), 1, `no process has ${words} in its command line`)
      })
    }

    /** The number of processes with these words in their command line. */
    async function alive(words: string): Promise<number> {
      const counted = await fixture.probe(
        sandbox,
        'for p in /proc/[0-9]*; do [ "$p" = "/proc/$$" ] || tr "\\0" " " < $p/cmdline; echo; done',
      )
      return counted.split('\n').filter((line) => line.includes(words) && !line.includes('for p in')).length
    }

    function sha(bytes: Uint8Array): string {
      return createHash('sha256').update(bytes).digest('hex')
    }

    /** Converts escapes of `printf` to those of JSON. */
    function unescape(escapes: string): string {
      return escapes.replaceAll(
        /\\(\d{3})/g,
        (_, digits: string) => `\\u00${Number.parseInt(digits, 8).toString(16).padStart(2, '0')}`,
      )
    }
  })
}
