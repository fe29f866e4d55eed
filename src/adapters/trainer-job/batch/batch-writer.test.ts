import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runPython, withoutPython } from '../../../../test/support/python.ts'
import { makeAction, makeEpisode } from '../../../../test/support/training-records.ts'
import { NEUTRAL_SAMPLING } from '../../../contracts/neutral-sampling.ts'
import { groupAdvantages } from '../../../domain/rewards/group-selection.ts'
import { orderByHash, episodeMaterial } from '../../../domain/hash-order.ts'
import { splitIntoMinibatches } from '../../../domain/rewards/minibatches.ts'
import { createDirectoryStore } from '../../artifacts/directory-store.ts'
import { type BatchRow, writeBatch, type WriteBatchInput } from './batch-writer.ts'
import { decodeSafetensors } from './safetensors.ts'
import { assembleTrajectory } from './trajectory.ts'

const root = await mkdtemp(join(tmpdir(), 'batch-'))
after(() => rm(root, { recursive: true, force: true }))
const POLICY = { version: 'v000000-aaaaaaaa', manifestSha256: 'a'.repeat(64) }
const rewards = [1, 0.5, -0.25]
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Two groups of three; one token has no finite log-probability, one turn broke the format. */
function makeInput(name: string, changes: Partial<WriteBatchInput> = {}): WriteBatchInput {
  const kind = changes.kind ?? 'dapo'
  const advantages = groupAdvantages({ rewards, delta: 1e-6 })
  const rows = ['task-a', 'task-b'].flatMap((taskId) =>
    rewards.map((_reward, member): BatchRow => {
      const { record, actions } = makeEpisode({ taskId, index: member, turns: 1 + member })
      if (member === 1) actions[0] = makeAction(record, 0, { logprobs: [-1, Number.NaN, -1] })
      if (member === 2) actions[1] = makeAction(record, 1, { formatError: 'multiple_commands', command: null })
      const trajectory = assembleTrajectory({ record, actions, trainFormatErrors: kind === 'dapo' })
      return { trajectory, group: taskId, member, advantage: kind === 'rft' ? null : (advantages[member] ?? 0) }
    }),
  )
  const material = ({ trajectory }: BatchRow): string => episodeMaterial({ recipeSeed: 5, ...trajectory.record })
  const ordered = orderByHash({ items: rows, material, hash: sha256 })
  return {
    store: createDirectoryStore({ root }),
    directory: name,
    kind,
    run: 'r',
    iteration: 1,
    rows: ordered,
    minibatches: splitIntoMinibatches({ trajectories: ordered.length, batch: 4 }),
    groups: [
      ...['task-b', 'task-a'].map((id) => ({
        id,
        taskId: id,
        rewards,
        outcomes: [1, 1, 0] as (0 | 1)[],
        infra: 1,
        dropped: null,
      })),
      { id: 'task-c', taskId: 'task-c', rewards: [0], outcomes: [0], infra: 0, dropped: 'few' },
    ],
    policies: [POLICY],
    tokenizerSha256: 'b'.repeat(64),
    vocabSize: 259,
    maxRowTokens: 64,
    sampling: NEUTRAL_SAMPLING,
    totalSteps: 2,
    advantage: kind === 'rft' ? null : { delta: 1e-6, filter: 'shaped' },
    ...changes,
  }
}

/** Opens the batch with the trainer's own reader, which applies every rule of the format. */
function readWithTrainer(directory: string, manifestSha256: string, stage: 'rft' | 'dapo'): Promise<string> {
  const script = `
import json, sys
from pathlib import Path
from longhaul_trainer.batch.accounts import InputPolicy
from longhaul_trainer.batch.load import load_batch
from longhaul_trainer.failures import JobError
directory, digest, stage = sys.argv[1:4]
try:
    batch = load_batch(Path(directory), manifest_sha256=digest, stage=stage, iteration=1, batch_size=4,
        tokenizer_sha256="b" * 64, vocab_size=259, policy=InputPolicy("v000000-aaaaaaaa", "a" * 64),
        max_policy_lag=0 if stage == "dapo" else None)
except JobError as error:
    print(json.dumps({"code": error.code, "message": error.message}))
else:
    print(json.dumps({"rows": batch.rows, "tokens": batch.tokens, "loss": int(batch.loss_mask.sum()),
        "minibatches": [part.rows for part in batch.minibatches], "dropped": batch.dropped_nonfinite,
        "logprobs": batch.behaviour_logprobs is not None}))
`
  return runPython(script, directory, manifestSha256, stage)
}

test('the trainer’s own reader accepts a dapo and an rft batch', { skip: withoutPython }, async () => {
  // Rows: prompt 4 + 3 sampled a turn + 2 a delta → 7, 12, 17 tokens; sampled 3, 6, 9; one dropped in each member 1.
  const dapo = await writeBatch(makeInput('dapo'))
  assert.deepEqual(JSON.parse(await readWithTrainer(join(root, 'dapo'), dapo.sha256, 'dapo')), {
    rows: 6,
    tokens: 72,
    loss: 34,
    minibatches: [3, 3],
    dropped: 2,
    logprobs: true,
  })
  // The format-error turn of each member 2 loses its three tokens.
  const rft = await writeBatch(makeInput('rft', { kind: 'rft' }))
  assert.deepEqual(JSON.parse(await readWithTrainer(join(root, 'rft'), rft.sha256, 'rft')), {
    rows: 6,
    tokens: 72,
    loss: 28,
    minibatches: [3, 3],
    dropped: 2,
    logprobs: true,
  })
})

test('the bytes do not depend on the order of records and groups', async () => {
  const input = makeInput('order')
  const first = await writeBatch(input)
  const again = await writeBatch({ ...makeInput('order'), groups: [...input.groups].reverse() })
  assert.deepEqual(again, first)
})

test('data starts at a multiple of 64 and reads back', async () => {
  await writeBatch(makeInput('layout'))
  const file = await readFile(join(root, 'layout/batch.safetensors'))
  assert.equal((8 + Number(file.readBigUInt64LE(0))) % 64, 0)
  const tensors = decodeSafetensors(file)
  assert.deepEqual(
    [...tensors.keys()],
    ['row_offsets', 'row_trajectory', 'input_ids', 'behaviour_logprobs', 'advantages', 'policy_version', 'loss_mask'],
  )
})

test('rows sampled after another prompt have no log-probabilities and cannot enter a dapo batch', async () => {
  const input = makeInput('prompt', { kind: 'rft' })
  const rows = input.rows.map((row) => ({ ...row, trajectory: { ...row.trajectory, hasOtherPrompt: true } }))
  await writeBatch({ ...input, rows })
  assert.equal(
    decodeSafetensors(await readFile(join(root, 'prompt/batch.safetensors'))).has('behaviour_logprobs'),
    false,
  )
  const dapo = makeInput('prompt-dapo')
  const wrong = dapo.rows.map((row) => ({ ...row, trajectory: { ...row.trajectory, hasOtherPrompt: true } }))
  await assert.rejects(writeBatch({ ...dapo, rows: wrong }), { code: 'Trainer.BatchRefused' })
})

test('refuses rows that cannot train before it writes anything', async () => {
  const input = makeInput('refused')
  const [first] = input.rows
  assert.ok(first !== undefined)
  const cases: [Partial<WriteBatchInput>, string][] = [
    [{ rows: [], minibatches: [] }, 'Batch.Empty'],
    [{ rows: [...input.rows, first], minibatches: [4, 3] }, 'Trainer.BatchRefused'],
    [{ minibatches: [3, 2] }, 'Trainer.BatchRefused'],
    [{ maxRowTokens: 16 }, 'Trainer.BatchRefused'],
    [{ policies: [] }, 'Trainer.BatchRefused'],
    [{ kind: 'rft' }, 'Trainer.BatchRefused'],
  ]
  for (const [changes, code] of cases) await assert.rejects(writeBatch({ ...input, ...changes }), { code })
  assert.deepEqual(await input.store.list('refused/'), [])
})
