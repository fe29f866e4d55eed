/** A sandbox is lost: its committed turns rebuild it in a fresh one, and any difference is detected. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'

import { EpisodeWorld, compare } from '../../../src/activities/episode/episode-world.ts'
import { lastRunBefore, spentMs, type Turn } from '../../../src/activities/episode/transcript.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { ActionRecord, ObservationRecord } from '../../../src/contracts/episodes.types.ts'
import type { SandboxHandle, TurnResult } from '../../../src/contracts/sandbox.types.ts'
import {
  codeOf,
  createPlayer,
  lastTurn,
  never,
  type ContractFixture,
  type MakeFixture,
  textOf,
} from '../../integration/sandbox-fixture.ts'

export function describeReplay(makeFixture: MakeFixture): void {
  describe('replay of a sandbox', () => {
    let fixture: ContractFixture
    let folder: string
    let store: ArtifactStore
    let placements = 0

    before(async () => {
      fixture = await makeFixture('replay', { 'a/m.py': 'x = 1\ny = 2\n', '.gitignore': '*.log\n' })
      folder = await mkdtemp(join(tmpdir(), 'longhaul-replay-'))
      store = createDirectoryStore({ root: folder })
    })

    after(async () => {
      await fixture.dispose()
      await rm(folder, { recursive: true, force: true })
    })

    interface Played {
      episode: string
      turns: Turn[]
    }

    /** Plays commands in a sandbox that is then lost. Null is a reply without a command; the tree is recorded after the last turn. */
    async function playAndLose(name: string, commands: (string | null)[]): Promise<Played> {
      const episode = `${fixture.run}/stage/0001/${name}/00`
      const sandbox = await fixture.host.open(fixture.openInput({ episode }), never)
      const player = createPlayer(fixture.host, sandbox)
      const turns: Turn[] = []
      let state = await fixture.host.initialState(sandbox, never)
      for (const [turn, command] of commands.entries()) {
        const result = command === null ? null : await player.play(command, { turn, timeoutMs: 1_000 })
        state = result?.state ?? state
        const action = { turn, command, token: `token${turn}`, sampleMs: 100 } as ActionRecord
        const execution = result === null ? null : { ...result, outputBytes: result.outputBytes }
        turns.push({ action, observation: { turn, text: '', execution, state } as unknown as ObservationRecord })
      }
      await worldIn(sandbox, { episode, turns }).world.noteTree(commands.length - 1)
      await fixture.host.close(sandbox)
      return { episode, turns }
    }

    /** An episode's world in a sandbox, and the turns that are replayed to restore it. */
    function worldIn(sandbox: SandboxHandle, { episode, turns }: Played, fence = 2, mayLackTurns = true) {
      const replayed: number[] = []
      const onReplay = (turn: number): unknown => replayed.push(turn)
      const common = { store, host: fixture.host, sandbox, signal: never }
      return {
        world: new EpisodeWorld({ ...common, episode, turns, fence, timeoutMs: 60_000, mayLackTurns, onReplay }),
        replayed,
      }
    }

    async function placeAnew({ episode }: Played): Promise<SandboxHandle> {
      placements += 1
      return fixture.host.open(fixture.openInput({ episode, placement: 1 + placements }), never)
    }

    /** @returns the new sandbox and the turns that were executed in it */
    async function rebuild(played: Played): Promise<{ sandbox: SandboxHandle; executed: number[] }> {
      const sandbox = await placeAnew(played)
      const { world, replayed } = worldIn(sandbox, played)
      await world.ensureCurrent()
      return { sandbox, executed: replayed }
    }

    /** The last turn of the records that ran a command, as the request after it names it. */
    function lastOf({ turns }: Played) {
      return lastRunBefore(turns, turns.length)
    }

    test('a replacement sandbox has the files, directory, environment and tools of a lost one, and ran each command once', async () => {
      const played = await playAndLose('whole', [
        'echo one >> notes.txt; mkdir -p deep; cd deep',
        'export MARK=on; umask 027; exit 3',
        null,
        'open ../a/m.py 2',
        'echo two >> /testbed/notes.txt; git -c user.name=a -c user.email=a@b commit -qam change; echo x > skipped.log',
        "edit 1:1 'x = 3'",
      ])
      const { sandbox, executed } = await rebuild(played)
      assert.deepEqual(executed, [0, 1, 3, 4, 5])
      const player = createPlayer(fixture.host, sandbox)
      const looked = await player.play('pwd; echo $MARK; umask; cat /testbed/notes.txt; head -n 1 /testbed/a/m.py', {
        turn: 6,
        fence: 2,
        after: lastOf(played),
      })
      assert.equal(textOf(looked), '/testbed/deep\non\n0027\none\ntwo\nx = 3\n')
      assert.equal(looked.state.openFile, '/testbed/a/m.py')
    })

    // The story: every workflow of a run is terminated, its records are replaced by an older copy or deleted, and it is started again at
    // once. Placements count from 1 again, and the sandbox of that name has run turns that the new execution knows nothing of.
    test('a sandbox of an earlier execution under the name of a placement is not continued', async () => {
      const episode = `${fixture.run}/stage/0001/left/00`
      const earlier = fixture.openInput({ episode, ownerRun: 'earlier' })
      const left = await fixture.host.open(earlier, never)
      const before = createPlayer(fixture.host, left)
      assert.equal(textOf(await before.play('cd a; echo left > left.txt; cat left.txt', { fence: 5 })), 'left\n')
      // Another attempt of the same execution continues in it.
      const adopted = await fixture.host.open(earlier, never)
      assert.equal(adopted.containerId, left.containerId)

      const open = (placement: number) => fixture.host.open({ ...earlier, placement, ownerRun: 'later' }, never)
      const anew = await open(1).catch((error: unknown) => {
        assert.equal(codeOf(error), 'Sandbox.Lost')
        return open(2)
      })
      assert.notEqual(anew.containerId, left.containerId)
      assert.equal((await fixture.host.initialState(anew, never)).cwd, '/testbed')
      const after = createPlayer(fixture.host, anew)
      assert.equal(textOf(await after.play('pwd; cat a/left.txt 2> /dev/null || echo none')), '/testbed\nnone\n')
      await fixture.host.close(anew)
    })

    // The story: two stacks share an engine, and runs without a name of their own are called after the day.
    test('a sandbox of another stack under the name of a placement is neither used nor removed', async () => {
      const [mine, theirs] = await Promise.all([fixture.anotherHost('mine'), fixture.anotherHost('theirs')])
      try {
        const episode = `${fixture.run}/stage/0001/shared/00`
        const input = fixture.openInput({ episode, ownerRun: 'mine' })
        const opened = await mine.open(input, never)
        await assert.rejects(theirs.open({ ...input, ownerRun: 'theirs' }, never), { code: 'Sandbox.Lost' })
        const next = await theirs.open({ ...input, ownerRun: 'theirs', placement: 2 }, never)
        assert.ok(await fixture.isRunning(opened.name))
        await Promise.all([mine.close(opened), theirs.close(next)])
      } finally {
        mine.dispose()
        theirs.dispose()
      }
    })

    test('a retry after a crash in a replay runs only the missing turns', async () => {
      const played = await playAndLose('again', [
        'echo one >> notes.txt',
        null,
        'echo two >> notes.txt',
        'echo three >> notes.txt',
      ])
      const sandbox = await placeAnew(played)
      const half = { ...played, turns: played.turns.slice(0, 3) }
      const first = worldIn(sandbox, half)
      await first.world.ensureCurrent()
      const { world, replayed } = worldIn(sandbox, played, 3)
      await world.ensureCurrent()
      await world.ensureCurrent()
      assert.deepEqual([first.replayed, replayed], [[0, 2], [3]])
      const looked = await createPlayer(fixture.host, sandbox).play('cat notes.txt', {
        turn: 4,
        fence: 3,
        after: lastOf(played),
      })
      assert.equal(textOf(looked), 'one\ntwo\nthree\n')
    })

    // The story: all workflows of a run are terminated, the run is started again, and the new execution of an episode gets a
    // container that has seen nothing. Its next turn used to run there.
    test('a new sandbox replays the earlier turns before it runs turn 2', async () => {
      const played = await playAndLose('pristine', ['echo one >> notes.txt', 'cd /tmp; export MARK=on'])
      const sandbox = await placeAnew(played)
      const open = {
        turn: 2,
        command: 'pwd; echo $MARK; cat /testbed/notes.txt',
        token: 'open',
        sampleMs: 1,
      } as ActionRecord
      const turns = [...played.turns, { action: open, observation: null }]
      const { world, replayed } = worldIn(sandbox, { ...played, turns })
      assert.equal(textOf(await world.run(open, open.command ?? '', 1_000)), '/tmp\non\none\n')
      assert.deepEqual(replayed, [0, 1])
    })

    test('a new sandbox refuses to give the patch or files of played turns', async () => {
      const played = await playAndLose('refused', ['echo one >> notes.txt'])
      const sandbox = await placeAnew(played)
      const after = lastOf(played)
      const refused = (error: unknown): boolean => codeOf(error) === 'Sandbox.Behind'
      await assert.rejects(fixture.host.capture(sandbox, { mode: 'all', after }, never), refused)
      await assert.rejects(fixture.host.treeHash(sandbox, after, never), refused)
      assert.equal((await fixture.host.capture(sandbox, { mode: 'all', after: null }, never)).patch.byteLength, 0)
    })

    // The story: Git adds nothing beside such a repository, so every hash was that of an unreadable tree.
    test('a repository without a commit inside the repository hides no other file from the hash', async () => {
      const sandbox = await placeAnew({ episode: `${fixture.run}/stage/0001/inner/00`, turns: [] })
      const player = createPlayer(fixture.host, sandbox)
      const hash = (): Promise<string> => fixture.host.treeHash(sandbox, lastTurn(sandbox), never)
      await player.play('git init -q inner; echo one > new.txt')
      const before = await hash()
      assert.equal(await hash(), before)
      await player.play('echo two > new.txt')
      assert.notEqual(await hash(), before)
    })

    test('places the episode again when a sandbox is ahead of the records', async () => {
      const played = await playAndLose('further', ['echo one >> notes.txt', 'echo two >> notes.txt'])
      const { sandbox } = await rebuild(played)
      const { world } = worldIn(sandbox, { ...played, turns: played.turns.slice(0, 1) }, 3)
      await assert.rejects(world.ensureCurrent(), (error) => codeOf(error) === 'Sandbox.Ended')
    })

    test('replays nothing when a sandbox denies turns that it has run', async () => {
      const played = await playAndLose('denied', ['echo one >> notes.txt', 'echo two >> notes.txt'])
      // A new sandbox answers like one that was made to forget; only the episode knows that it is not new.
      const { world, replayed } = worldIn(await placeAnew(played), played, 3, false)
      await assert.rejects(world.ensureCurrent(), (error) => codeOf(error) === 'Sandbox.Ended')
      assert.deepEqual(replayed, [])
    })

    test('does not believe a sandbox that claims its last turn but has other files', async () => {
      const played = await playAndLose('claimed', ['echo one >> notes.txt'])
      const { sandbox } = await rebuild(played)
      await fixture.probe(sandbox, 'echo other > /testbed/notes.txt')
      await assert.rejects(
        worldIn(sandbox, played, 3).world.ensureCurrent(),
        (error) => codeOf(error) === 'Sandbox.Diverged',
      )
    })

    test('reports a turn that another sandbox of the episode recorded with a different end', async () => {
      const turn = {
        action: { turn: 0, command: 'exit 3' },
        observation: { turn: 0, execution: { exitCode: 3 }, state: {} },
      }
      const { result } = { result: { exitCode: 0, state: {} } as TurnResult }
      assert.throws(() => compare('e', turn.observation as never, result), { code: 'Sandbox.Diverged' })
      assert.doesNotThrow(() => compare('e', turn.observation as never, { ...result, exitCode: 3 }))
    })

    test('the tree hash detects a command that writes other bytes the second time with equal exit code and directory', async () => {
      const played = await playAndLose('random', ['cat /proc/sys/kernel/random/uuid > made.txt'])
      await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
    })

    test('detects a difference in committed bytes although git status is clean', async () => {
      const played = await playAndLose('committed', [
        'cat /proc/sys/kernel/random/uuid > made.txt; git add .; git -c user.name=a -c user.email=a@b commit -qm made',
      ])
      await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
    })

    test('detects a command that ends differently the second time, at that turn', async () => {
      const played = await playAndLose('exit', ['true', 'true'])
      const second = played.turns[1]
      assert.ok(second)
      second.action.command = 'false'
      await assert.rejects(rebuild(played), (error) => {
        assert.equal(codeOf(error), 'Sandbox.Diverged')
        assert.match((error as Error).message, /exit code differs.*turn=1/)
        return true
      })
    })

    test('detects an environment that differs the second time', async () => {
      const played = await playAndLose('environment', ['export MARK=$(cat /proc/sys/kernel/random/uuid)'])
      await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
    })

    test('replays nothing when one of the turns was stopped at its deadline', async () => {
      const played = await playAndLose('timeout', ['echo one > notes.txt', 'echo two >> notes.txt; sleep 30'])
      assert.equal(played.turns[1]?.observation?.execution?.reason, 'timeout')
      const { world, replayed } = worldIn(await placeAnew(played), played)
      await assert.rejects(world.ensureCurrent(), (error) => codeOf(error) === 'Sandbox.Diverged')
      assert.deepEqual(replayed, [])
    })

    test('the time that an episode has used is the sum of sampling and commands, not wall-clock time', () => {
      const turn = (sampleMs: number, wallMs: number | null): Turn =>
        ({
          action: { sampleMs, sampledAtMs: 9e15 },
          observation: { execution: wallMs === null ? null : { wallMs } },
        }) as unknown as Turn
      // 100 + 30 + 200 + 7
      assert.equal(spentMs({ start: {} as never, turns: [turn(100, 30), turn(200, null), turn(7, null)] }), 337)
    })
  })
}
