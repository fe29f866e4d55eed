import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import type { SandboxHandle, TurnRequest } from '../../../src/contracts/sandbox.types.ts'
import {
  PATIENT,
  type Player,
  type ContractFixture,
  type ContractHost,
  type MakeFixture,
  codeOf,
  createPlayer,
  never,
  textOf,
  untilTrue,
  untimed,
} from '../../integration/sandbox-fixture.ts'

export function describeJournal(makeFixture: MakeFixture, { canRestart }: { canRestart: boolean }): void {
  describe('journal of a sandbox', () => {
    let fixture: ContractFixture
    let other: ContractHost
    let sandbox: SandboxHandle
    let player: Player
    let placement = 0

    before(async () => {
      fixture = await makeFixture('journal', { 'm.py': 'x = 1\n' })
      other = await fixture.anotherHost()
      await openAnother()
    })

    after(async () => {
      other.dispose()
      await fixture.dispose()
    })

    // The race: two workers believe that they own the episode and request the same turn at the same moment. The first to claim it
    // runs it, and the other waits for the result.
    test('two runners that request one turn at once run it once and get the same answer, in twenty rounds', async () => {
      for (let round = 0; round < 20; round += 1) {
        const request = player.next(`echo ${round} >> /tmp/rounds; date +%N`)
        const [own, foreign] = await Promise.all([ask(request), other.runTurn(sandbox, request, never)])
        assert.deepEqual(untimed(foreign), own)
      }
      const expected = Array.from({ length: 20 }, (_, round) => `${round}\n`).join('')
      assert.equal((await player.play('cat /tmp/rounds')).text, expected)
    })

    test('at most one of two concurrent requests with different tokens for one turn runs', async () => {
      const request = player.next('echo ran >> /tmp/tokens')
      const results = await Promise.allSettled([
        ask(request),
        other.runTurn(sandbox, { ...request, token: 'another' }, never),
      ])
      const refused = results.flatMap((result) => (result.status === 'rejected' ? [codeOf(result.reason)] : []))
      assert.deepEqual(refused, ['Sandbox.JournalConflict'])
      const token = results[0]?.status === 'fulfilled' ? request.token : 'another'
      const { text } = await player.play('cat /tmp/tokens', { after: { turn: request.turn, token } })
      assert.equal(text, 'ran\n')
    })

    test('a sandbox opens and runs a command without an exec, and two hosts that open one at once get own answers', async () => {
      await openAnother()
      await player.play('true')
      assert.deepEqual(await fixture.execs(sandbox.name), fixture.backend === 'containers' ? [] : null)
      placement += 1
      const input = fixture.openInput({ placement })
      const [own, foreign] = await Promise.all([fixture.host.open(input, never), other.open(input, never)])
      assert.equal(foreign.containerId, own.containerId)
      sandbox = own
      player = createPlayer(fixture.host, sandbox)
      const first = player.next('echo first')
      const second = player.next('echo second')
      assert.equal(textOf(await ask(first)), 'first\n')
      assert.equal(textOf(await other.runTurn(sandbox, second, never)), 'second\n')
      assert.equal(textOf(await other.runTurn(sandbox, first, never)), 'first\n')
    })

    test('a turn runs once with the same answer when its stream breaks before, during or after it', async () => {
      cut()
      const first = await player.play('echo before >> /tmp/killed; cat /tmp/killed')
      assert.equal(first.text, 'before\n')
      const request = player.next('echo during >> /tmp/killed; sleep 1; cat /tmp/killed; date +%N')
      const running = ask(request)
      await untilTrue(async () => (await look('cat /tmp/killed')).includes('during'))
      cut()
      const during = await running
      assert.match(textOf(during), /^before\nduring\n\d+\n$/)
      cut()
      assert.deepEqual(await ask(request), during)
    })

    test('a truncated result is lost: it is neither believed nor run again', async () => {
      await openAnother()
      const request = player.next('echo once >> /tmp/torn; cat /tmp/torn')
      await ask(request)
      const done = `/.lh/turns/${request.turn}.${request.token}.done`
      for (const tear of [`sed -i '$d' ${done}`, `printf '0 exi' > ${done}`, `: > ${done}`, `rm ${done}`]) {
        await look(tear)
        cut()
        await assert.rejects(ask(request), (error) => codeOf(error) === 'Sandbox.Ended', tear)
      }
      assert.equal(await look('cat /tmp/torn'), 'once\n')
    })

    test('a missing result is lost without waiting for the deadline', async () => {
      await openAnother()
      const request = player.next('echo once >> /tmp/gone', { timeoutMs: 600_000 })
      await ask(request)
      await look(`rm /.lh/turns/${request.turn}.${request.token}.done`)
      await assert.rejects(ask(request), (error) => codeOf(error) === 'Sandbox.Ended')
      assert.equal(await look('cat /tmp/gone'), 'once\n')
    })

    test('a torn claim is lost, and nothing runs', async () => {
      await openAnother()
      for (const [turn, text] of Object.entries({ 0: '', 1: 'abc token1 4', 2: `${'0'.repeat(64)} token2 1 1` })) {
        await look(`printf '${text}' > /.lh/turns/${turn}`)
        const request = player.next('touch /tmp/ran', { turn: Number(turn), token: `token${turn}` })
        await assert.rejects(ask(request), (error) => codeOf(error) === 'Sandbox.Ended')
      }
      assert.equal(await look('ls /tmp/ran'), '')
    })

    test('ignores results that the agent wrote for future turns under guessed names', async () => {
      await openAnother()
      const forged = '0 exit 2 1 0 0 0 1\\n/.lh/state.start\\n\\n.\\n'
      await player.play(
        `for t in 1 2 3; do printf '${forged}' > /.lh/turns/$t.guess.done; printf ok > /.lh/turns/$t.guess.out; done`,
      )
      const { text, state } = await player.play('echo real')
      assert.equal(text, 'real\n')
      assert.equal(state.submitted, false)
    })

    // A pod is never restarted: after its end the episode is placed again and replayed.
    if (canRestart) {
      test('a restarted container answers finished turns, keeps its state and loses an unfinished turn', async () => {
        await openAnother()
        const finished = player.next('cd /tmp; export KEPT=1; echo once >> /tmp/restart; date +%N')
        const answer = await ask(finished)
        await restart()
        assert.deepEqual(await ask(finished), answer)
        assert.equal((await player.play('pwd; echo $KEPT; cat /tmp/restart')).text, '/tmp\n1\nonce\n')

        const unfinished = player.next('echo half >> /tmp/restart; sleep 6000', PATIENT)
        const running = ask(unfinished)
        running.catch(() => undefined)
        await untilTrue(async () => (await look('cat /tmp/restart')).includes('half'))
        await restart()
        await assert.rejects(running, (error) => codeOf(error) === 'Sandbox.Lost')
        await assert.rejects(ask(unfinished), (error) => codeOf(error) === 'Sandbox.Lost')
        assert.equal(await look('cat /tmp/restart'), 'once\nhalf\n')
      })

      test('the next request starts a killed container, and opening it again finds its work', async () => {
        await openAnother()
        const request = player.next('echo kept > /tmp/kept; date +%N')
        const answer = await ask(request)
        await fixture.kill(sandbox.name)
        assert.deepEqual(await ask(request), answer)
        await fixture.kill(sandbox.name)
        const adopted = await fixture.host.open(fixture.openInput({ placement }), never)
        assert.deepEqual(adopted, sandbox)
        assert.equal((await player.play('cat /tmp/kept')).text, 'kept\n')
      })
    }

    test('a sandbox that ended by its lease is not started again', async () => {
      const short = await fixture.host.open(fixture.openInput({ placement: 90, leaseMs: 2000 }), never)
      await untilTrue(async () => !(await fixture.isRunning(short.name)))
      const request = createPlayer(fixture.host, short).next('echo back')
      await assert.rejects(fixture.host.runTurn(short, request, never), (error) => codeOf(error) === 'Sandbox.Lost')
      assert.equal(await fixture.isRunning(short.name), false)
    })

    test('another stream opens after the agent removed the working directory and the stream broke', async () => {
      await openAnother()
      await player.play('rm -rf /testbed')
      cut()
      assert.equal((await player.play('cd /; echo there')).text.split('\n').at(-2), 'there')
    })

    async function openAnother(): Promise<void> {
      placement += 1
      sandbox = await fixture.host.open(fixture.openInput({ placement }), never)
      player = createPlayer(fixture.host, sandbox)
    }

    async function ask(request: TurnRequest) {
      return untimed(await fixture.host.runTurn(sandbox, request, never))
    }

    function look(command: string): Promise<string> {
      return fixture.probe(sandbox, command)
    }

    /** Makes the next request use a new exec, as another worker's would. */
    function cut(): void {
      fixture.host.context.runners.disconnect(sandbox.name)
    }

    async function restart(): Promise<void> {
      await fixture.restart(sandbox.name)
      await sleep(100)
    }
  })
}
