import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { NO_ROOTS } from '../../../test/support/no-roots.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import { MockActivityEnvironment } from '@temporalio/testing'
import { callingRoot, findOtherPlayer, lastPlayer, playAlone, type RootRegistry } from './play-alone.ts'
import { removeRun } from './remove-run.ts'
import { allocateRun } from './run-names.ts'
import type { Player } from '../../contracts/run-records.types.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})
after(() => close())

const A: Player = { workflowId: 'eval/a', runId: 'a-1' }
const B: Player = { workflowId: 'from-the-ui', runId: 'b-1' }
const C: Player = { workflowId: 'from-the-cli', runId: 'c-1' }

/** A run that A has made. */
async function makeRun(run: string): Promise<void> {
  const { workflowId, runId: firstExecutionRunId } = A
  const request = { kind: 'eval', recipe: 'mini', recipeHash: 'h', date: '2026-11-27' } as const
  await allocateRun(store, { ...request, run, workflowId, firstExecutionRunId })
}

/** A server on which these workflows are open, none of which is in its index yet. */
const openOn = (...open: Player[]): RootRegistry => ({
  ...NO_ROOTS,
  isPlaying: async ({ workflowId }) => open.some((player) => player.workflowId === workflowId),
})

// The story: a run has ended. Two people continue it in the same second, under two workflow ids. The server's index shows neither of
// them, so both found themselves alone.
test('two roots continue an old run, and both have looked before either is recorded: one plays, the other is refused', async () => {
  await makeRun('raced')
  let looks = 0
  let release: () => void = () => undefined
  const bothHaveLooked = new Promise<void>((resolve) => {
    release = resolve
  })
  const roots = openOn(B, C)
  const racing: RootRegistry = {
    ...roots,
    findListed: async () => {
      if ((looks += 1) === 2) release()
      await bothHaveLooked
      return null
    },
  }
  const ends = await Promise.allSettled(
    [B, C].map((player) => playAlone({ store, roots: racing, run: 'raced', player })),
  )
  const last = await lastPlayer(store, 'raced')
  assert.deepEqual(ends.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const winner = ends[0]?.status === 'fulfilled' ? B : C
  assert.deepEqual(last, { ...winner, number: 1 })
  const [refused] = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as LonghaulError] : []))
  assert.equal(refused?.code, 'Config.Invalid')
  assert.match(refused?.message ?? '', new RegExp(`^Run raced is being played by the workflow ${winner.workflowId}\\.`))
})

test('an attempt is repeated, its root is reset, another one follows after the end: each plays, and the record names the last', async () => {
  await makeRun('continued')
  const play = (player: Player, ...open: Player[]) =>
    playAlone({ store, roots: openOn(...open), run: 'continued', player })
  await play(A, A)
  await play(A, A)
  assert.deepEqual(await lastPlayer(store, 'continued'), { ...A, number: 0 })
  const reset = { ...A, runId: 'a-2' }
  await play(reset, reset)
  await play(reset, reset)
  assert.deepEqual(await lastPlayer(store, 'continued'), { ...reset, number: 1 })
  await play(B, B)
  assert.deepEqual(await lastPlayer(store, 'continued'), { ...B, number: 2 })
})

test('a root that was ended is reset while another one plays its run: it is refused, also where it had its name long ago', async () => {
  await makeRun('superseded')
  const roots = openOn(A, B)
  await playAlone({ store, roots: openOn(B), run: 'superseded', player: B })
  for (const player of [A, { ...A, runId: 'a-2' }]) {
    await assert.rejects(playAlone({ store, roots, run: 'superseded', player }), /played by the workflow from-the-ui/)
    assert.equal(await findOtherPlayer({ store, roots, run: 'superseded', player }), B.workflowId)
  }
  assert.equal(await findOtherPlayer({ store, roots, run: 'superseded', player: B }), null)
  assert.equal(await findOtherPlayer({ store, roots: openOn(A), run: 'superseded', player: A }), null, 'B has ended')
})

test('a publication asks again for a root that publishes, and for no stage below it', async () => {
  const callerOf = (workflowType: string) =>
    new MockActivityEnvironment({ workflowType, workflowExecution: A }).run(async () => callingRoot())
  for (const type of ['trainAgent', 'evaluate']) assert.deepEqual(await callerOf(type), A, type)
  for (const type of ['reinforce', 'rejectionFineTune']) assert.equal(await callerOf(type), null, type)
})

test('a bucket lists an older state: the last player is found all the same', async () => {
  await makeRun('stale')
  for (const player of [B, C]) await playAlone({ store, roots: NO_ROOTS, run: 'stale', player })
  const stale = { ...store, list: async () => [] }
  assert.deepEqual(await lastPlayer(stale, 'stale'), { ...C, number: 2 })
})

test('the server does not answer: the run is not taken on a guess', async () => {
  await makeRun('unknown')
  const roots: RootRegistry = {
    ...NO_ROOTS,
    isPlaying: async () => {
      throw new LonghaulError({ code: 'Temporal.Unreachable', message: 'no answer' })
    },
  }
  await assert.rejects(playAlone({ store, roots, run: 'unknown', player: B }), { code: 'Temporal.Unreachable' })
  assert.deepEqual(await lastPlayer(store, 'unknown'), { ...A, number: 0 })
})

// The story: a run is continued from the Temporal UI a moment before `run remove`. The name's mark came too late for the start, and the
// server's index showed the workflow too late for the removal: its records went while it played.
for (const pace of ['ends at once', 'is at work until the start has ended'] as const) {
  test(`a removal begins at any step of a start, and ${pace}: the start is refused, or nothing is removed`, async () => {
    const seen = new Set<string>()
    for (const step of ['list', 'readRecord', 'claimRecord'] as const) {
      for (let call = 1; call <= 6; call++) {
        const run = `removed-${step}-${call}-${pace.length}`.toLowerCase()
        await makeRun(run)
        let calls = 0
        let removal: Promise<string> = Promise.resolve('none')
        let endStart: () => void = () => undefined
        const startHasEnded = new Promise<void>((resolve) => {
          endStart = resolve
        })
        /** Returns when the removal has judged whether the run is open. What it sees: the last player, and nothing in the index. */
        const begin = () =>
          new Promise<void>((judged) => {
            const removing: ArtifactStore = {
              ...store,
              removeFolder: async (folder) => {
                if (pace !== 'ends at once' && folder.startsWith('episodes/')) await startHasEnded
                return store.removeFolder(folder)
              },
            }
            const isOpen = async (last: string | null) => {
              if (pace !== 'ends at once') judged()
              return last === B.workflowId ? last : null
            }
            removal = removeRun(removing, run, isOpen).then(
              () => 'removed',
              () => 'kept',
            )
            void removal.then(() => judged())
          })
        const hooked = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
          if (name === step && (calls += 1) === call) await begin()
          return work()
        }
        const racing: ArtifactStore = {
          ...store,
          list: (prefix) => hooked('list', () => store.list(prefix)),
          readRecord: (key) => hooked('readRecord', () => store.readRecord(key)),
          claimRecord: (key, record) => hooked('claimRecord', () => store.claimRecord(key, record)),
        }
        const started = await playAlone({ store: racing, roots: NO_ROOTS, run, player: B }).then(
          () => true,
          () => false,
        )
        endStart()
        const end = await removal
        if (calls < call) continue
        const isWhole = (await store.readRecord(runKeys.claim(run))) !== null
        seen.add(`${started ? 'started' : 'refused'}, ${end}`)
        assert.ok(!started || (end === 'kept' && isWhole), `${step} ${call}: started ${started}, ${end}`)
      }
    }
    assert.ok(seen.has('refused, removed') && seen.has('started, kept'), [...seen].join('; '))
  })
}
