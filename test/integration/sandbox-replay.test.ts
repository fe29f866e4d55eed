/** A sandbox is lost: its committed turns rebuild it in a fresh one, and what does not come out the same is found. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { recordTree, replayEpisode } from '../../src/activities/host/replay-episode.ts'
import { spentMs, type Turn } from '../../src/activities/host/transcript.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { ActionRecord, ObservationRecord } from '../../src/contracts/episodes.types.ts'
import type { SandboxHandle, TurnResult } from '../../src/contracts/sandbox.types.ts'
import { codeOf, createPlayer, createSandboxFixture, never, type SandboxFixture, textOf } from './sandbox-fixture.ts'

let fixture: SandboxFixture
let folder: string
let store: ArtifactStore
let placements = 0

before(async () => {
  fixture = await createSandboxFixture('replay', { 'a/m.py': 'x = 1\ny = 2\n', '.gitignore': '*.log\n' })
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

/** Plays commands in a sandbox that is then lost. Null is a reply without a command; the tree is noted after the last turn. */
async function playAndLose(name: string, commands: (string | null)[]): Promise<Played> {
  const episode = `${fixture.run}/stage/0001/${name}/00`
  const sandbox = await fixture.host.open(fixture.openInput({ episode }), never)
  const player = createPlayer(fixture.host, sandbox)
  const turns: Turn[] = []
  let state = await fixture.host.initialState(sandbox, never)
  for (const [turn, command] of commands.entries()) {
    const request = player.next(command ?? 'true', { turn, timeoutMs: 1_000 })
    const result = command === null ? null : await fixture.host.runTurn(sandbox, request, never)
    state = result?.state ?? state
    const action = { turn, command, token: request.token, sampleMs: 100 } as ActionRecord
    const execution = result === null ? null : { ...result, outputBytes: result.outputBytes }
    turns.push({ action, observation: { turn, text: '', execution, state } as unknown as ObservationRecord })
  }
  await recordTree({ store, host: fixture.host, sandbox, episode, signal: never }, commands.length - 1)
  await fixture.host.close(sandbox)
  return { episode, turns }
}

/** @returns the new sandbox and the turns that were executed in it */
async function rebuild({ episode, turns }: Played): Promise<{ sandbox: SandboxHandle; executed: number[] }> {
  placements += 1
  const sandbox = await fixture.host.open(fixture.openInput({ episode, placement: 1 + placements }), never)
  const executed: number[] = []
  const execute = ({ action }: Turn, command: string): Promise<TurnResult> => {
    executed.push(action.turn)
    const { turn, token } = action
    return fixture.host.runTurn(sandbox, { turn, token, command, fence: 2, timeoutMs: 5_000, maxOutputBytes: 0 }, never)
  }
  await replayEpisode({ store, host: fixture.host, sandbox, episode, turns, execute, signal: never })
  return { sandbox, executed }
}

test('a sandbox is lost after turns that changed files, place, environment and tools: the new one has all of it, each command ran once', async () => {
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
  })
  assert.equal(textOf(looked), '/testbed/deep\non\n0027\none\ntwo\nx = 3\n')
  assert.equal(looked.state.openFile, '/testbed/a/m.py')
})

test('the replay is asked for again after a crash in the middle of it: the journal answers, nothing runs twice', async () => {
  const played = await playAndLose('again', ['echo one >> notes.txt', 'echo two >> notes.txt'])
  const { sandbox } = await rebuild(played)
  const execute = ({ action: { turn, token } }: Turn, command: string): Promise<TurnResult> =>
    fixture.host.runTurn(sandbox, { turn, token, command, fence: 3, timeoutMs: 5_000, maxOutputBytes: 0 }, never)
  await replayEpisode({ ...played, store, host: fixture.host, sandbox, execute, signal: never })
  const looked = await createPlayer(fixture.host, sandbox).play('cat notes.txt', { turn: 2, fence: 3 })
  assert.equal(textOf(looked), 'one\ntwo\n')
})

test('a command leaves other bytes the second time: the tree hash tells, although exit code and place are the same', async () => {
  const played = await playAndLose('random', ['cat /proc/sys/kernel/random/uuid > made.txt'])
  await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
})

test('bytes that the agent has committed differ: found too, although git status is clean', async () => {
  const played = await playAndLose('committed', [
    'cat /proc/sys/kernel/random/uuid > made.txt; git add .; git -c user.name=a -c user.email=a@b commit -qm made',
  ])
  await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
})

test('a command ends otherwise the second time: found at that turn', async () => {
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

test('an environment that differs the second time: found', async () => {
  const played = await playAndLose('environment', ['export MARK=$(cat /proc/sys/kernel/random/uuid)'])
  await assert.rejects(rebuild(played), (error) => codeOf(error) === 'Sandbox.Diverged')
})

test('a turn was stopped at its deadline: the prefix is not repeatable, and nothing is tried', async () => {
  const played = await playAndLose('timeout', ['echo one > notes.txt', 'echo two >> notes.txt; sleep 30'])
  assert.equal(played.turns[1]?.observation?.execution?.reason, 'timeout')
  placements += 1
  const { episode, turns } = played
  const input = fixture.openInput({ episode, placement: 1 + placements })
  const sandbox = await fixture.host.open(input, never)
  const execute = (): Promise<TurnResult> => Promise.reject(new Error('nothing may run'))
  await assert.rejects(
    replayEpisode({ store, host: fixture.host, sandbox, episode, turns, execute, signal: never }),
    (error) => codeOf(error) === 'Sandbox.Diverged',
  )
})

test('what an episode has used of its time is sampling and commands, whatever the clock on the wall says', () => {
  const turn = (sampleMs: number, wallMs: number | null): Turn =>
    ({
      action: { sampleMs, sampledAtMs: 9e15 },
      observation: { execution: wallMs === null ? null : { wallMs } },
    }) as unknown as Turn
  // 100 + 30 + 200 + 7
  assert.equal(spentMs({ start: {} as never, turns: [turn(100, 30), turn(200, null), turn(7, null)] }), 337)
})
