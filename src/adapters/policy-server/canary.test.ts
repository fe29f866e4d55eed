import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { encodeSafetensors } from '../trainer-job/batch/safetensors.ts'
import { judgeCanary } from './canary-rules.ts'
import { verifyCanary, verifyTokenizer } from './canary.ts'

const root = await mkdtemp(join(tmpdir(), 'canary-'))
after(() => rm(root, { recursive: true, force: true }))
const signal = new AbortController().signal
const policy: PolicyRef = {
  version: 'v000001-aaaaaaaa',
  uri: pathToFileURL(root).href,
  manifestSha256: '',
  globalStep: 1,
  checkpointUri: null,
  checkpointSha256: null,
}

/** Two rows of four tokens; the new weights moved their last two labels by a half. */
async function writeCanary(moved: number): Promise<void> {
  const position = [2, 3, 2, 3]
  await writeFile(
    join(root, 'canary.safetensors'),
    encodeSafetensors([
      { name: 'row_offsets', dtype: 'I64', shape: [3], data: BigInt64Array.from([0n, 4n, 8n]) },
      { name: 'input_ids', dtype: 'I32', shape: [8], data: Int32Array.from([1, 2, 3, 4, 5, 6, 7, 8]) },
      { name: 'position_row', dtype: 'I32', shape: [4], data: Int32Array.from([0, 0, 1, 1]) },
      { name: 'position_index', dtype: 'I32', shape: [4], data: Int32Array.from(position) },
      { name: 'old_logprobs', dtype: 'F32', shape: [4], data: Float32Array.from(position, (at) => -at) },
      { name: 'new_logprobs', dtype: 'F32', shape: [4], data: Float32Array.from(position, (at) => -at + moved) },
    ]),
  )
}

/** Scores of a server whose weights are `share` of the way from old to new, with an engine's noise. */
const serverAt = (score: (at: number) => number) => ({
  score: ({ ids }: { ids: number[] }) => Promise.resolve(ids.slice(1).map((_id, index) => score(index + 1))),
})
const verify = (score: (at: number) => number) =>
  verifyCanary({ client: serverAt(score), policy, tolerance: 0.02, signal })

test('verifies a server with the new weights, engine noise included', async () => {
  await writeCanary(0.5)
  const verdict = await verify((at) => -at + 0.5 + (at % 2 === 0 ? 0.01 : -0.01))
  assert.equal(verdict.kind, 'verified')
})

test('refuses a server with the old weights as stale and one with other weights as wrong', async () => {
  await writeCanary(0.5)
  await assert.rejects(
    verify((at) => -at),
    { code: 'Model.CanaryMismatch', message: /those of the old ones/ },
  )
  await assert.rejects(
    verify((at) => -at + 3),
    { code: 'Model.CanaryMismatch', message: /those of the trainer/ },
  )
  await assert.rejects(
    verify(() => Number.NaN),
    { code: 'Model.CanaryMismatch' },
  )
})

test('reports weights that moved less than the engine’s noise as indistinguishable', async () => {
  await writeCanary(0.001)
  assert.equal((await verify((at) => -at)).kind, 'indistinguishable')
  await assert.rejects(
    verify((at) => -at + 1),
    { code: 'Model.CanaryMismatch' },
  )
})

test('an absent file leaves nothing to compare, and a broken file is corrupt', async () => {
  await rm(join(root, 'canary.safetensors'))
  assert.deepEqual(await verify((at) => -at), { kind: 'no-canary' })
  await writeFile(join(root, 'canary.safetensors'), 'torn')
  await assert.rejects(
    verify((at) => -at),
    { code: 'Artifact.Corrupt' },
  )
})

test('refuses a server with another tokenizer by a special token, and accepts the policy’s', async () => {
  const directory = await mkdtemp(join(root, 'tokenizer-'))
  const other = { ...policy, uri: pathToFileURL(directory).href }
  const answering = (answers: Record<string, number[]>) => ({
    tokenize: ({ text }: { text: string }) => Promise.resolve(answers[text] ?? [7, 8]),
  })
  const verify = (answers: Record<string, number[]>) =>
    verifyTokenizer({ client: answering(answers), policy: other, signal })
  // Without a file, or without special tokens, there is nothing to compare.
  await verify({})
  await writeFile(
    join(directory, 'tokenizer.json'),
    '{"added_tokens": [{"id": 3, "content": "word", "special": false}]}',
  )
  await verify({})
  const special = ['<a>', '<b>', '<c>', '<d>', '<e>', '<f>', '<g>', '<h>', '<i>', '<j>']
  const added = special.map((content, id) => ({ id, content, special: true }))
  await writeFile(join(directory, 'tokenizer.json'), JSON.stringify({ added_tokens: added }))
  const right = Object.fromEntries(special.map((content, id): [string, number[]] => [content, [id]]))
  await verify(right)
  for (const wrong of [{ '<a>': [9] }, { '<j>': [9, 9] }, { '<d>': [] }, { '<g>': [60, 103] }]) {
    await assert.rejects(verify({ ...right, ...wrong }), { code: 'Model.CanaryMismatch', message: /tokenizer/ })
  }
  // Reserved ones between the first and the last are not asked for.
  await verify({ ...right, '<e>': [9] })
})

describe('a server that holds part of the new weights, within the engine’s noise at every position', () => {
  /** 256 positions that moved by 0.05, up and down, under noise of 0.01. */
  const positions = Array.from({ length: 256 }, (_, at) => ({
    index: at + 1,
    oldLogprob: -1,
    newLogprob: -1 + (at % 2 === 0 ? 0.05 : -0.05),
  }))
  const judge = (share: number) =>
    judgeCanary({
      served: positions.map(
        ({ oldLogprob, newLogprob }, at) =>
          oldLogprob + share * (newLogprob - oldLogprob) + (at % 4 < 2 ? 0.01 : -0.01),
      ),
      positions,
      tolerance: 0.02,
    })

  for (const [share, kind] of [
    [1, 'verified'],
    [0.95, 'verified'],
    [0.8, 'partial'],
    [0.67, 'partial'],
    [0, 'stale'],
  ] as const) {
    test(`${share} of the movement is ${kind}`, () => {
      assert.equal(judge(share).kind, kind)
    })
  }
})
