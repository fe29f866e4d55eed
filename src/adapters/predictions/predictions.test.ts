import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { Prediction } from '../../contracts/grading.types.ts'
import { readPredictions, PREDICTION_LAYOUTS, writePredictions } from './predictions.ts'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-predictions-'))
after(() => rmSync(folder, { recursive: true }))

let files = 0
function file(content: string | Uint8Array, ending = 'json'): string {
  const path = join(folder, `${files++}.${ending}`)
  writeFileSync(path, content)
  return path
}

const one = (id: string, patch: unknown, model: unknown = 'm') => ({
  instance_id: id,
  model_name_or_path: model,
  model_patch: patch,
})

/** What patches are made of that a careless reader changes. */
const HARD = 'diff --git a/x b/x\r\n+caf\u00e9 \u{1F600}\u2028 \u0000\f\t \n\n+no newline'

for (const [what, path] of [
  ['a list', file(JSON.stringify([one('a', HARD), one('b', '')]))],
  ['an object whose values count, not its keys', file(JSON.stringify({ x: one('a', HARD), a: one('b', null) }))],
  [
    'JSON Lines, with blank lines',
    file(`${JSON.stringify(one('a', HARD))}\n\n${JSON.stringify(one('b', ''))}\n`, 'jsonl'),
  ],
] as const) {
  test(`reads predictions as ${what} with patches byte for byte, and null and "" as empty`, async () => {
    assert.deepEqual(await readPredictions({ path }), {
      format: 'swebench',
      predictions: [
        { taskId: 'a', model: 'm', patch: HARD },
        { taskId: 'b', model: 'm', patch: '' },
      ],
      duplicates: [],
    })
  })
}

test('the list of SWE-rebench-V2 has no model, so the caller names it', async () => {
  const path = file(
    JSON.stringify([
      { instance_id: 'a', patch: HARD },
      { instance_id: 'b', patch: '' },
    ]),
  )
  const read = await readPredictions({ path, model: 'mine' })
  assert.equal(read.format, 'rebench-v2')
  assert.deepEqual(read.predictions[0], { taskId: 'a', model: 'mine', patch: HARD })
})

test('the last of two entries of one id counts, in the place of the first, and is reported', async () => {
  const path = file(JSON.stringify([one('a', '1'), one('b', '2'), one('a', '3')]))
  const { predictions, duplicates } = await readPredictions({ path })
  assert.deepEqual(
    predictions.map(({ taskId, patch }) => [taskId, patch]),
    [
      ['a', '3'],
      ['b', '2'],
    ],
  )
  assert.deepEqual(duplicates, ['a'])
})

test('skips NaN and Infinity as Python writes them, and keeps the same words in a patch', async () => {
  const path = file(
    '[{"instance_id": "a", "model_name_or_path": "m", "model_patch": "+x = NaN \\" NaN", "cost": NaN, "z": -Infinity}]',
  )
  assert.equal((await readPredictions({ path })).predictions[0]?.patch, '+x = NaN " NaN')
  // A patch of 20 MB with escapes, in an entry that a Python program wrote.
  const patch = 'NaN \\ "\n'.repeat(2_500_000)
  const entry = `{"instance_id": "a", "model_name_or_path": "m", "cost": NaN, "model_patch": ${JSON.stringify(patch)}}`
  assert.equal((await readPredictions({ path: file(`[${entry}]`) })).predictions[0]?.patch, patch)
})

test('a patch of twenty megabytes is read beside a cost that is NaN', async () => {
  const patch = `+${'x'.repeat(2e7)}\\n`
  const path = file(`[{"instance_id": "a", "model_name_or_path": "m", "model_patch": "${patch}", "cost": NaN}]`)
  assert.equal((await readPredictions({ path })).predictions[0]?.patch.length, 2e7 + 2)
})

test('keeps half a character of a patch, which the grading refuses later', async () => {
  const path = file('[{"instance_id": "a", "model_name_or_path": "m", "model_patch": "\\ud800"}]')
  assert.equal((await readPredictions({ path })).predictions[0]?.patch, '\ud800')
})

for (const [what, path, code, message] of [
  ['is not there', join(folder, 'none.json'), 'Config.NotFound', /none\.json: there is no such file/],
  ['has another ending', file('[]', 'txt'), 'Config.Invalid', /\.json or \.jsonl, or the word gold/],
  ['is no JSON', file('[{"instance_id": '), 'Config.Invalid', /Expected JSON, got .*whole file/],
  ['has a line that is no JSON', file(`${JSON.stringify(one('a', ''))}\n{oops`, 'jsonl'), 'Config.Invalid', /line 2/],
  ['is not UTF-8', file(Buffer.from([0x5b, 0xff, 0x5d])), 'Config.Invalid', /UTF-8/],
  ['is empty', file('[]'), 'Config.Invalid', /at least one prediction/],
  ['is a number', file('3'), 'Config.Invalid', /a list of predictions, or an object/],
  ['holds text for a prediction', file('["a"]'), 'Config.Invalid', /object, got "a".*item 1/],
  [
    'names no task',
    file(JSON.stringify([{ ...one('a', ''), instance_id: 7 }])),
    'Config.Invalid',
    /instance_id.*item 1/,
  ],
  ['names no model', file(JSON.stringify([one('a', '', null)])), 'Config.Invalid', /model_name_or_path.*item 1/],
  [
    'has no patch beside a model',
    file(JSON.stringify({ a: { instance_id: 'a', model_name_or_path: 'm' } })),
    'Config.Invalid',
    /model_patch; say null.*entry \\?"a/,
  ],
  [
    'has a patch that is a list',
    file(JSON.stringify([one('a', ['x'])])),
    'Config.Invalid',
    /text or null, got \["x"\]/,
  ],
  [
    'is V2’s with an entry without patch: gold never stands in for it',
    file(JSON.stringify([{ instance_id: 'a', patch: 'x' }, { instance_id: 'b' }])),
    'Config.Invalid',
    /gold patch is never taken.*item 2/,
  ],
] as const) {
  test(`a predictions file ${what}: one error names the place and the fix`, async () => {
    await assert.rejects(readPredictions({ path }), (error) => {
      assert.ok(isLonghaulError(error), String(error))
      assert.equal(error.code, code)
      assert.match(error.message, message)
      return true
    })
  })
}

test('written predictions are read back equal in every layout', async () => {
  const predictions: Prediction[] = [
    { taskId: 'a__a-1', model: 'm', patch: HARD },
    { taskId: 'b__b-2', model: 'm', patch: '' },
  ]
  for (const layout of PREDICTION_LAYOUTS) {
    const path = file(writePredictions(predictions, layout), layout === 'jsonl' ? 'jsonl' : 'json')
    assert.deepEqual((await readPredictions({ path, model: 'm' })).predictions, predictions, layout)
  }
})
