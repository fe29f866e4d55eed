import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ActionRecord, EpisodeSpec, EpisodeStart } from '../../contracts/episodes.types.ts'
import { createKeptTranscripts, type KeptTranscript, type TranscriptPlace } from './kept-transcripts.ts'

test('a kept transcript is taken once, and only by its own execution and sandbox', () => {
  const kept = createKeptTranscripts()
  const left = transcriptOf(1)
  kept.keep(place('first', 'a'), left)
  // A run that was removed and started anew has episodes and sandboxes of the same names.
  assert.equal(kept.take(place('second', 'a')), null)
  assert.equal(kept.take(place('first', 'b')), null)
  assert.equal(kept.take(place('first', 'a')), left)
  assert.equal(kept.take(place('first', 'a')), null)
})

test('the oldest transcripts are dropped when there are too many', () => {
  // A turn without ids and texts counts 1,024 bytes.
  const kept = createKeptTranscripts({ maxBytes: 5 * 1_024 })
  for (const name of ['a', 'b', 'c']) kept.keep(place('run', name), transcriptOf(2))
  assert.deepEqual(
    ['a', 'b', 'c'].map((name) => kept.take(place('run', name)) !== null),
    [false, true, true],
  )
  // What is taken or replaced makes room again.
  for (let turns = 1; turns <= 5; turns++) kept.keep(place('run', 'd'), transcriptOf(turns))
  assert.equal(kept.take(place('run', 'd'))?.transcript.turns.length, 5)
  kept.keep(place('run', 'e'), transcriptOf(6))
  assert.equal(kept.take(place('run', 'e')), null)
})

function place(ownerRun: string, name: string): TranscriptPlace {
  return { owner: { owner: 'episode', ownerRun }, sandbox: { name } }
}

function transcriptOf(turns: number): KeptTranscript {
  const action = { ids: [], logprobs: [], promptDelta: [], text: '', command: null } as Partial<ActionRecord>
  return {
    spec: {} as EpisodeSpec,
    transcript: {
      start: {} as EpisodeStart,
      turns: Array.from({ length: turns }, () => ({ action: action as ActionRecord, observation: null })),
    },
  }
}
