import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isLonghaulError } from '../../contracts/errors.ts'
import { evaluationLimits } from '../../domain/statistics/evaluation-limits.ts'
import { RECORD_KINDS } from '../artifacts/store-rules.ts'
import { loadRecipe, type LoadRecipeInput } from './load-recipe.ts'
import { recipeSchemaText } from './schema-map.ts'

const recipes = fileURLToPath(new URL('../../../recipes', import.meta.url))
const dirs = [recipes]

const smallest = `model: { base: some-model }
data:
  train: { kind: synthetic, seed: 1, split: train, count: 4 }
  heldOut: { kind: synthetic, seed: 1, split: eval, count: 4 }
evaluate: { attempts: 1, maxTurns: 6, context: 8000 }
`

async function refusal(input: LoadRecipeInput): Promise<{ code: string; message: string }> {
  try {
    await loadRecipe(input)
  } catch (error) {
    assert.ok(isLonghaulError(error), String(error))
    return { code: error.code, message: error.message }
  }
  throw new assert.AssertionError({ message: 'Expected the recipe to be refused' })
}

test('every recipe of the package resolves, is named by its file and points editors at the schema', async () => {
  const files = (await readdir(recipes)).filter((file) => file.endsWith('.yaml'))
  assert.deepEqual(files.toSorted(), [
    'chat-endpoint.yaml',
    'demo.yaml',
    'mini-two-stage.yaml',
    'mini.yaml',
    'nightly-swe-rebench.yaml',
    'nightly.yaml',
    'paper-72b.yaml',
    'qwen2.5-32b.yaml',
    'qwen2.5-7b-one-gpu.yaml',
    'qwen3-4b-one-gpu.yaml',
    'repair.yaml',
  ])
  for (const file of files) {
    const name = file.slice(0, -'.yaml'.length)
    const { recipe, hash, text } = await loadRecipe({ name, dirs })
    assert.equal(recipe.name, name)
    assert.match(hash, /^[0-9a-f]{64}$/)
    assert.equal(text.split('\n')[0], '# yaml-language-server: $schema=../schemas/recipe.schema.json')
  }
})

test('the editor schema equals the zod schema', async () => {
  const stored = await readFile(new URL('../../../schemas/recipe.schema.json', import.meta.url), 'utf8')
  assert.equal(stored, recipeSchemaText(), 'run: node src/adapters/recipes/write-schema.ts')
})

test('paper-72b has the configuration of the paper', async () => {
  const { recipe } = await loadRecipe({ name: 'paper-72b', dirs })
  const { rft, reinforce, evaluate } = recipe
  assert.deepEqual(recipe.model.rope, { type: 'yarn', factor: 4, originalMax: 32_768 })
  assert.deepEqual(recipe.data.filters, {
    hiddenNames: 'drop',
    maxFiles: 7,
    maxLines: 499,
    dropLlmScore: 3,
    flakyTrials: 50,
  })
  assert.equal(rft?.rolloutsPerTask, 10)
  assert.deepEqual([rft?.optim.lr, rft?.optim.weightDecay, rft?.optim.warmupSteps, rft?.batch], [5e-6, 0.1, 10, 64])
  assert.deepEqual([rft?.context, rft?.epochs, rft?.maxSteps, rft?.mask.formatErrorTurns], [65_536, 1, null, 0])
  assert.deepEqual([reinforce?.groupSize, reinforce?.optim.lr, reinforce?.filter.on], [10, 1e-6, 'outcome'])
  assert.deepEqual(reinforce?.reward, {
    pass: 1,
    fail: 0,
    unsubmitted: 0,
    turnPenalty: { start: 'L_thr', end: 'T_max', min: -1 },
    contextPenalty: null,
  })
  assert.deepEqual([reinforce?.advantage.scale, reinforce?.loss.sequenceMask], ['groupStd', null])
  assert.deepEqual(
    reinforce?.stages.map((stage) => [
      stage.context,
      stage.maxTurns,
      stage.penaltyStart,
      stage.problemsPerIteration,
      stage.batch,
      stage.clip?.low,
      stage.clip?.high,
    ]),
    [
      [65_536, 40, 10, 300, 128, 0.2, 0.3],
      [131_072, 80, 10, 100, 256, 0.2, 0.26],
    ],
  )
  assert.deepEqual([evaluate.attempts, evaluate.sampling, evaluate.context], [10, 'modelDefault', 131_072])
  const played = [
    'base',
    'rft',
    'stage1-0005',
    'stage1',
    'stage1.rebench_2025_05',
    'stage2-0005',
    'rl',
    'rl.rebench_2025_06',
  ]
  for (const name of ['paper-72b', 'qwen2.5-32b']) {
    const { recipe: stated } = await loadRecipe({ name, dirs })
    assert.deepEqual(
      played.map((evaluation) => Object.values(evaluationLimits(stated, evaluation))),
      [
        [80, 131_072],
        [40, 65_536],
        [40, 65_536],
        [40, 65_536],
        [40, 65_536],
        [80, 131_072],
        [80, 131_072],
        [80, 131_072],
      ],
    )
  }
  // Verified-50 as the paper's appendix B lists it: hash of the sorted ids, one a line.
  const quick = evaluate.quick?.toSorted().map((taskId) => `${taskId}\n`)
  assert.equal(
    createHash('sha256')
      .update(quick?.join('') ?? '')
      .digest('hex'),
    '325b7988cec9352e29960505ecf85227d17f5d2abc4b2f1bfe2e92b5f3d5bf67',
  )
  const smaller = await loadRecipe({ name: 'qwen2.5-32b', dirs })
  assert.deepEqual(smaller.recipe.evaluate.quick, evaluate.quick)
})

test('refuses keys without an effect and names the key that has it', async () => {
  const text = smallest.replace('context: 8000 }', 'context: 8000, quick: [a], quickEvery: 5 }')
  const unknown = await refusal({ name: 'promises', text })
  assert.match(unknown.message, /evaluate\.quickEvery: is not a key.*\n.*\n.*reinforce\.evaluateEvery says how often/)
  const useless = await refusal({ name: 'useless', text: text.replace(', quickEvery: 5', '') })
  assert.match(useless.message, /evaluate\.quick: has no effect without reinforce\.evaluateEvery/)
})

test('refuses invalid trackers: a token as value, an unknown key, a relative directory, one place twice', async () => {
  assert.deepEqual((await loadRecipe({ name: 'untracked', text: smallest })).recipe.trackers, [])
  const withTrackers = (...trackers: string[]) =>
    `${smallest}\ntrackers:\n${trackers.map((one) => `  - ${one}\n`).join('')}`
  const mlflow = '{ kind: mlflow, url: "http://127.0.0.1:5000", experiment: a }'
  const board = '{ kind: tensorboard, directory: /data/tb }'
  const wandb = '{ kind: wandb, project: agents, directory: /data/wandb }'
  const { recipe, hash } = await loadRecipe({ name: 'tracked', text: withTrackers(mlflow, board, wandb) })
  assert.deepEqual(recipe.trackers, [
    { kind: 'mlflow', url: 'http://127.0.0.1:5000', experiment: 'a', tokenVariable: null },
    { kind: 'tensorboard', directory: '/data/tb' },
    { kind: 'wandb', project: 'agents', entity: null, directory: '/data/wandb' },
  ])
  assert.notEqual(hash, (await loadRecipe({ name: 'tracked', text: smallest })).hash)
  for (const [tracker, reason] of [
    [mlflow.replace(' }', ', token: s }'), /trackers\[0\]\.token: is not a key of a recipe/],
    [
      mlflow.replace(' }', ', tokenVariable: "a b" }'),
      /trackers\[0\]\.tokenVariable: expected .*never the token itself/s,
    ],
    [mlflow.replace('http://', 'http://me:secret@'), /trackers\[0\]\.url: expected an address without a user/],
    [mlflow.replace('http:', 'ftp:'), /trackers\[0\]\.url: expected/],
    [board.replace('/data', 'data'), /trackers\[0\]\.directory: expected .*Absolute path/s],
    ['{ kind: comet }', /trackers\[0\].*expected one of mlflow, tensorboard, wandb/],
    [wandb.replace('agents', '"a/b"'), /trackers\[0\]\.project: expected .*without spaces and \/ /s],
    [wandb.replace('/data', 'data'), /trackers\[0\]\.directory: expected .*Absolute path/s],
  ] as const) {
    assert.match((await refusal({ name: 'wrong', text: withTrackers(tracker) })).message, reason)
  }
  const twice = await refusal({ name: 'twice', text: withTrackers(board, mlflow, board.replace('/tb', '/x/../tb/')) })
  assert.match(twice.message, /trackers\[2\]: is the same place as trackers\[0\]/)
})

test('additional suites are named sources, and ambiguous names are refused', async () => {
  const rows = '{ kind: rows, path: a.jsonl }'
  const withSuites = (suites: string) => smallest.replace('context: 8000 }', `context: 8000, suites: ${suites} }`)
  const { recipe } = await loadRecipe({ name: 'two', text: withSuites(`{ verified: ${rows} }`) })
  assert.deepEqual(recipe.evaluate.suites, { verified: { kind: 'rows', path: 'a.jsonl', limit: null } })
  const dashed = await refusal({ name: 'dashed', text: withSuites(`{ rebench-2025: ${rows} }`) })
  assert.match(dashed.message, /evaluate\.suites\.rebench-2025: expected letters, digits and _, .*got "rebench-2025"/)
  const short = await refusal({ name: 'short', text: withSuites('{ verified: { kind: rows } }') })
  assert.match(short.message, /evaluate\.suites\.verified\.path: expected text, got nothing/)
  const reserved = await refusal({ name: 'reserved', text: withSuites(`{ heldOut: ${rows} }`) })
  assert.match(reserved.message, /evaluate\.suites\.heldOut: expected another name/)
  const listed = await refusal({ name: 'listed', text: withSuites('[verified]') })
  assert.match(listed.message, /evaluate\.suites: expected/)
})

test('reports all problems of a file at once, with line, column, rule, source line and hint', async () => {
  const text = `${smallest}rft:\n  rolloutsPerTask: 8\n  maxTurns: five\n  context: 8000\n  batch: 0\n  optim: { lr: 1e-5 }\ntrianer: {}\n`
  const { code, message } = await refusal({ name: 'broken', text })
  assert.equal(code, 'Config.Invalid')
  assert.equal(
    message,
    [
      'The recipe has 3 problems',
      'broken.yaml:8:13 error recipe/type rft.maxTurns: expected an integer ≥ 1, got "five"',
      '  8 |   maxTurns: five',
      'broken.yaml:10:10 error recipe/range rft.batch: expected an integer ≥ 1, got 0',
      '  10 |   batch: 0',
      '     hint: Trajectories per optimizer step',
      'broken.yaml:12:1 error recipe/unknown-key trianer: is not a key of a recipe',
      '  12 | trianer: {}',
      '     hint: did you mean trainer?',
    ].join('\n'),
  )
})

test('reports the position of unreadable YAML too', async () => {
  const { code, message } = await refusal({ name: 'torn', text: 'seed: 1\nmodel: [\n' })
  assert.equal(code, 'Config.Invalid')
  assert.match(message, /^torn\.yaml:\d+:\d+ error recipe\/syntax /m)
})

/** What a YAML parser accepts or throws, and no recipe is: each ends with a place in the file and a sentence about it. */
const NO_RECIPES: [what: string, text: string, problem: RegExp][] = [
  ['a list', '- seed\n', /^x\.yaml:1:1 error recipe\/syntax expected keys with values, such as seed: 1$/m],
  ['text', 'hello\n', /^x\.yaml:1:1 error recipe\/syntax expected keys with values/m],
  [
    'two documents',
    `${smallest}---\nseed: 1\n`,
    /^x\.yaml:6:1 error recipe\/syntax expected one document, and a second/m,
  ],
  [
    'aliases that multiply',
    `a: &a [${'x, '.repeat(20)}]\nb: &b [${'*a, '.repeat(20)}]\nc: &c [${'*b, '.repeat(20)}]\nd: [${'*c, '.repeat(20)}]\n`,
    /^x\.yaml:1:1 error recipe\/syntax expected fewer aliases$/m,
  ],
  [
    'thousands of aliases of one value',
    `a: &a 1\n${Array.from({ length: 2_000 }, (_, at) => `k${at}: *a`).join('\n')}\n`,
    /^x\.yaml:102:7 error recipe\/syntax expected fewer aliases$/m,
  ],
  [
    'text of more than half a mebibyte',
    Array.from({ length: 60_000 }, (_, at) => `k${at}: 1`).join('\n'),
    /^x\.yaml:1:1 error recipe\/syntax expected a text of at most 128 KiB, got 576 KiB$/m,
  ],
  [
    'an alias of itself',
    `${smallest}seed: &s [*s]\n`,
    /^x\.yaml:6:11 error recipe\/syntax the alias \*s is part of what/m,
  ],
  ['an alias of nothing', `${smallest}seed: *s\n`, /error recipe\/syntax Unresolved alias/m],
  [
    'a key of every object',
    `${smallest}__proto__: 1\n`,
    /^x\.yaml:6:1 error recipe\/syntax no key may be called __proto__/m,
  ],
  ['the same below', `${smallest}rft: { optim: { __proto__: 1 } }\n`, /^x\.yaml:6:17 error .*__proto__/m],
  [
    'deep nesting',
    `a: ${'['.repeat(20_000)}`,
    /^x\.yaml:1:\d+ error recipe\/syntax expected less nesting\n {2}1 \| .{160,162}$/m,
  ],
]

for (const [what, text, problem] of NO_RECIPES) {
  test(`refuses YAML that holds ${what}, with its position`, async () => {
    const { code, message } = await refusal({ name: 'x', text })
    assert.equal(code, 'Config.Invalid')
    assert.match(message, problem)
    assert.equal(message.match(/ error recipe/g)?.length, 1, message)
  })
}

test('inherited object keys are unknown keys, in the file and in overrides', async () => {
  for (const key of ['constructor', 'toString', 'hasOwnProperty']) {
    const { message } = await refusal({ name: 'x', text: `${smallest}${key}: 1\n`, overrides: { [key]: 1 } })
    assert.match(
      message,
      new RegExp(`error recipe/unknown-key ${key}: is not a key of a recipe\n.*known here: seed, model`, 's'),
    )
  }
})

test('a number beyond two limits is one problem', async () => {
  const { message } = await refusal({ name: 'x', text: `${smallest}seed: 99999999999999999999\n` })
  assert.match(message, /^The recipe has 1 problem\nx\.yaml:6:7 error recipe\/range seed: expected an integer/)
})

test('an unreadable recipe file is reported with the reason, and other folders are not searched', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-recipes-'))
  t.after(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'demo.yaml'), Buffer.from(`\uFEFF${smallest}`, 'utf16le'))
  const { code, message } = await refusal({ name: 'demo', dirs: [directory, recipes] })
  assert.equal(code, 'Config.Invalid')
  assert.match(message, /Expected a recipe file at .*demo\.yaml: it is UTF-16; save it as UTF-8/)
})

test('a repeated key is an error', async () => {
  const { message } = await refusal({ name: 'twice', text: `seed: 1\n${smallest}seed: 2\n` })
  assert.match(message, /^twice\.yaml:7:1 error recipe\/syntax .*unique/m)
})

test('an unknown recipe names the nearest one', async () => {
  const { code, message } = await refusal({ name: 'dmeo', dirs })
  assert.equal(code, 'Config.NotFound')
  assert.match(message, /did you mean demo\?.*nightly/)
})

test('a day that no calendar has is said in words, not as an expression', async () => {
  const text = smallest.replace('{ base: some-model }', '{ base: some-model, cutoff: 2025-02-30 }')
  const { message } = await refusal({ name: 'x', text })
  assert.match(message, /model\.cutoff: expected a date of the calendar such as 2025-03-31, or null, got "2025-02-30"/)
})

test('a name cannot leave the recipe directories', async () => {
  assert.equal((await refusal({ name: '../package', dirs })).code, 'Config.Invalid')
})

test('a text needs a name that its runs can begin with, as no command could read a run of another name', async () => {
  await loadRecipe({ name: 'mine-2.v1', text: smallest })
  for (const name of ['my recipe', 'a/b', '../x', 'rezept-ä', "it's", '', '.x', 'x'.repeat(81), 'x\n']) {
    const { code, message } = await refusal({ name, text: smallest })
    assert.equal(code, 'Config.Invalid', name)
    assert.match(message, /Expected the name of a recipe .*, which begins the names of its runs: rename it$/)
  }
})

test('overrides merge deeply, keep siblings and are named as the source of their own mistakes', async () => {
  const { recipe } = await loadRecipe({ name: 'demo', dirs, overrides: { seed: 7, rft: { tasks: 12 } } })
  assert.deepEqual([recipe.seed, recipe.rft?.tasks, recipe.rft?.rolloutsPerTask], [7, 12, 8])
  const { message } = await refusal({ name: 'demo', dirs, overrides: { rft: { taks: 12 } } })
  assert.match(message, /^overrides error recipe\/unknown-key rft\.taks: .*\n {5}hint: did you mean tasks\?/m)
})

test('comments, order and spelled-out defaults do not change the hash, and a value does', async () => {
  const plain = await loadRecipe({ name: 'x', text: smallest })
  const spelled = await loadRecipe({ name: 'x', text: `# note\nrft: null\nseed: 1\n${smallest}` })
  const other = await loadRecipe({ name: 'x', text: `seed: 2\n${smallest}` })
  assert.equal(spelled.hash, plain.hash)
  assert.notEqual(other.hash, plain.hash)
})

test('a recipe without an algorithm uses DAPO and keeps its earlier bytes', async () => {
  const { recipe, hash } = await loadRecipe({ name: 'mini', dirs })
  // Runs that an earlier version began go on only with the hash that they began with.
  assert.equal(
    JSON.stringify(recipe.reinforce?.loss),
    '{"level":"token","normalizer":"globalActionTokens","kl":0,"entropy":0,' +
      '"dualClip":null,"behaviourCorrection":"none","sequenceMask":null}',
  )
  assert.deepEqual([recipe.reinforce?.overlong, recipe.reinforce?.stages[0]?.batch], ['keep', 6])
  const stated = { algorithm: 'dapo', level: 'token', normalizer: 'globalActionTokens', kl: 0, entropy: 0 }
  const overrides = { reinforce: { loss: stated } }
  assert.equal((await loadRecipe({ name: 'mini', dirs, overrides })).hash, hash)
})

test('attention outputs are kept from a context of 32,768 tokens on a GPU by default', async () => {
  const recomputeOf = async (trainer: object, context: number) => {
    const { rft, reinforce } = (await loadRecipe({ name: 'mini', dirs })).recipe
    const stages = reinforce?.stages.map((stage) => ({ ...stage, context }))
    const overrides = { trainer, rft: rft && { context: 2_048 }, reinforce: { stages } }
    return (await loadRecipe({ name: 'mini', dirs, overrides })).recipe.trainer.recompute
  }
  assert.equal(await recomputeOf({ device: 'cuda' }, 32_768), 'save_attention')
  assert.equal(await recomputeOf({ device: 'cuda' }, 32_767), 'none')
  assert.equal(await recomputeOf({ device: 'cpu' }, 32_768), 'none')
  assert.equal(await recomputeOf({ device: 'cuda', recompute: 'full' }, 32_768), 'full')
})

test('checkpoints after every step are the default, and recipes keep their earlier bytes', async () => {
  const load = (checkpoint: object) => loadRecipe({ name: 'mini', dirs, overrides: { trainer: { checkpoint } } })
  const { recipe, hash } = await loadRecipe({ name: 'mini', dirs })
  assert.equal('checkpoint' in recipe.trainer, false)
  assert.equal((await load({ everySteps: 1, everyS: 0 })).hash, hash)
  assert.deepEqual((await load({ everyS: 600 })).recipe.trainer.checkpoint, { everySteps: 1, everyS: 600 })
})

test('level and normalizer follow from the algorithm and from a budget of tokens', async () => {
  const lossOf = async (loss: object, more: object = {}) => {
    const { recipe } = await loadRecipe({ name: 'mini', dirs, overrides: { reinforce: { loss, ...more } } })
    const { algorithm, level, normalizer, kl } = recipe.reinforce?.loss ?? {}
    return [algorithm, level, normalizer, kl]
  }
  assert.deepEqual(await lossOf({ algorithm: 'gspo' }), ['gspo', 'sequence', 'trajectoryTokens', 0])
  assert.deepEqual(await lossOf({ algorithm: 'cispo', kl: { coefficient: 0.1 } }), [
    'cispo',
    'token',
    'globalActionTokens',
    { coefficient: 0.1, reference: 'start' },
  ])
  const undivided = { advantage: { scale: 'none' } }
  assert.deepEqual(await lossOf({ algorithm: 'drGrpo' }, undivided), ['drGrpo', 'token', 'constantLength', 0])
})

test('pairs need a filter for whole pairs and no clip, and every other algorithm needs its clip', async () => {
  const { recipe } = await loadRecipe({ name: 'mini', dirs })
  const [stage] = recipe.reinforce?.stages ?? []
  assert.ok(stage !== undefined)
  const { clip: _, ...unclipped } = stage
  const loss = { algorithm: 'dpo', kl: { coefficient: 0.1 } }
  const filter = { on: 'outcome' }
  const paired = await loadRecipe({
    name: 'mini',
    dirs,
    overrides: { reinforce: { loss, filter, stages: [{ ...unclipped, batch: 4 }] } },
  })
  assert.deepEqual(paired.recipe.reinforce?.loss, {
    algorithm: 'dpo',
    level: 'sequence',
    normalizer: 'pairs',
    kl: { coefficient: 0.1, reference: 'start' },
    entropy: 0,
    dualClip: null,
    behaviourCorrection: 'none',
    sequenceMask: null,
  })
  const problemOf = async (reinforce: Record<string, unknown>) =>
    (await refusal({ name: 'mini', dirs, overrides: { reinforce } })).message
  assert.match(
    await problemOf({ loss, filter, stages: [{ ...unclipped, batch: 3 }] }),
    /reinforce\.stages\[0\]\.batch: expected an even number/,
  )
  assert.match(
    await problemOf({ stages: [unclipped] }),
    /reinforce\.stages\[0\]\.clip: expected low and high, got none/,
  )
})

test('modelDefault reads decoding from the base model and stores it in the resolved recipe', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-recipe-'))
  try {
    await writeFile(join(directory, 'generation_config.json'), '{"temperature": 0.6, "top_k": 20, "do_sample": true}')
    const text = smallest
      .replace('some-model', directory)
      .replace('attempts: 1,', 'attempts: 1, sampling: modelDefault,')
    const { recipe } = await loadRecipe({ name: 'x', text })
    assert.deepEqual([recipe.evaluate.modelSampling?.temperature, recipe.evaluate.modelSampling?.topK], [0.6, 20])
  } finally {
    await rm(directory, { recursive: true })
  }
})

function limitsOf(name: string, context: number): Record<string, unknown> {
  return { evaluate: { limits: { [name]: { maxTurns: 6, context } } } }
}

const impossible: [name: string, overrides: Record<string, unknown>, path: string][] = [
  ['a chat endpoint for training', { policyServer: { kind: 'chat' } }, 'policyServer.kind'],
  ['an endpoint without an address', { policyServer: { kind: 'chat' } }, 'policyServer.kind'],
  ['settings of an endpoint without one', { policyServer: { chat: {} } }, 'policyServer.chat'],
  ['a key in the address', { policyServer: { kind: 'chat', url: 'https://me:secret@host/v1' } }, 'policyServer.url'],
  [
    'decoding that the endpoint would leave out in silence',
    { policyServer: { kind: 'chat', url: 'https://host/v1' }, rollout: { sampling: { topK: 20 } } },
    'rollout.sampling.topK',
  ],
  ['more per step than rejection sampling collects', { rft: { batch: 193 } }, 'rft.batch'],
  ['more tasks than the suite has', { rft: { tasks: 51 } }, 'rft.tasks'],
  ['no generation config for modelDefault', { evaluate: { sampling: 'modelDefault' } }, 'evaluate.sampling'],
  ['groups that can never be large enough', { reinforce: { minGroupSize: 9 } }, 'reinforce.minGroupSize'],
  [
    'a correction that compares the sampler with itself',
    { reinforce: { oldLogprobs: 'sampler', loss: { behaviourCorrection: 'tis' } } },
    'reinforce.loss.behaviourCorrection',
  ],
  [
    'sampler log-probabilities from rounded weights',
    { reinforce: { oldLogprobs: 'sampler' }, trainer: { exportDtype: 'bfloat16' } },
    'reinforce.oldLogprobs',
  ],
  [
    'a mask that compares the sampler with itself',
    { reinforce: { oldLogprobs: 'sampler', loss: { sequenceMask: {} } } },
    'reinforce.loss.sequenceMask',
  ],
  ['rewards of turns without an amount', { reinforce: { stepRewards: { weight: 2 } } }, 'reinforce.stepRewards'],
  [
    'a price on turns without a loss',
    { reinforce: { stepRewards: { formatError: -0.1 }, mask: { formatErrorTurns: 0 } } },
    'reinforce.stepRewards.formatError',
  ],
  ['experts without the fine-tuning that keeps them', { rft: null, reinforce: { experts: {} } }, 'reinforce.experts'],
  ['experts for groups that always succeed', { reinforce: { experts: { below: 99 } } }, 'reinforce.experts.below'],
  ['pairs without a reference', { reinforce: { loss: { algorithm: 'dpo' } } }, 'reinforce.loss.kl'],
  [
    'a clip where nothing has a ratio',
    { reinforce: { loss: { algorithm: 'dpo', kl: { coefficient: 0.1 } } } },
    'reinforce.stages[0].clip',
  ],
  [
    'a correction where nothing has a ratio',
    { reinforce: { loss: { algorithm: 'dpo', kl: { coefficient: 0.1 }, behaviourCorrection: 'tis' } } },
    'reinforce.loss.behaviourCorrection',
  ],
  [
    'experts beside pairs',
    { reinforce: { loss: { algorithm: 'dpo', kl: { coefficient: 0.1 } }, experts: {} } },
    'reinforce.experts',
  ],
  [
    'another level than the algorithm’s',
    { reinforce: { loss: { algorithm: 'gspo', level: 'token' } } },
    'reinforce.loss.level',
  ],
  [
    'another normalizer than the algorithm’s',
    { reinforce: { loss: { algorithm: 'grpo', normalizer: 'globalActionTokens' } } },
    'reinforce.loss.normalizer',
  ],
  [
    'a token budget of an algorithm that does not divide by tokens',
    { reinforce: { loss: { algorithm: 'gspo', normalizer: 'tokenBudget' } } },
    'reinforce.loss.normalizer',
  ],
  [
    'a token budget and steps of so many trajectories',
    { reinforce: { loss: { normalizer: 'tokenBudget' } } },
    'reinforce.stages[0].batch',
  ],
  [
    'Dr. GRPO with the deviation that it leaves out',
    { reinforce: { loss: { algorithm: 'drGrpo' } } },
    'reinforce.advantage.scale',
  ],
  [
    'a dual clip where both sides are clipped',
    { reinforce: { loss: { algorithm: 'cispo', dualClip: 3 } } },
    'reinforce.loss.dualClip',
  ],
  [
    'a correction of tokens where one ratio is of all of them',
    { reinforce: { loss: { algorithm: 'gspo', behaviourCorrection: 'icepop' } } },
    'reinforce.loss.behaviourCorrection',
  ],
  [
    'something added to a deviation that divides nothing',
    { reinforce: { advantage: { scale: 'none', delta: 1e-4 } } },
    'reinforce.advantage.delta',
  ],
  [
    'a context beyond the positions that the rope reaches',
    { model: { rope: { type: 'yarn', factor: 2, originalMax: 256 } } },
    'evaluate.context',
  ],
  ['engines of a chat endpoint', { policyServer: { kind: 'chat', launch: {} } }, 'policyServer.launch'],
  [
    'engines beside servers of an operator',
    { policyServer: { kind: 'vllm', url: 'http://gpu-1:8000', launch: {} } },
    'policyServer.url',
  ],
  [
    'engines that a person is to restart',
    { policyServer: { kind: 'vllm', publish: 'manual', launch: {} } },
    'policyServer.publish',
  ],
  [
    'GPUs for one of two engines',
    { policyServer: { kind: 'vllm', launch: { replicas: 2, gpus: ['0'] } } },
    'policyServer.launch.gpus',
  ],
  [
    'engines that make room for a trainer elsewhere',
    { policyServer: { kind: 'vllm', launch: { placement: 'shared' } }, trainer: { launcher: 'slurm' } },
    'policyServer.launch.placement',
  ],
  [
    'reloading routes on an open address',
    { policyServer: { kind: 'vllm', publish: 'reload', launch: { host: '10.0.0.7' } } },
    'policyServer.launch.host',
  ],
  [
    'a port of a second engine beyond the last one',
    { policyServer: { kind: 'vllm', launch: { port: 65_535, replicas: 2 } } },
    'policyServer.launch.port',
  ],
  [
    'another model for the engine',
    { policyServer: { kind: 'vllm', launch: { arguments: ['--model', 'x'] } } },
    'policyServer.launch.arguments',
  ],
  [
    'another context in the engine’s other spelling',
    { policyServer: { kind: 'vllm', launch: { arguments: ['--max_model_len=9'] } } },
    'policyServer.launch.arguments',
  ],
  [
    'another state file of the embedded server',
    { policyServer: { launch: { arguments: ['--state', '/tmp/x'] } } },
    'policyServer.launch.arguments',
  ],
  [
    'a variable of the engine that Longhaul sets',
    { policyServer: { kind: 'vllm', launch: { environment: { VLLM_SERVER_DEV_MODE: '0' } } } },
    'policyServer.launch.environment.VLLM_SERVER_DEV_MODE',
  ],
  [
    'the same GPUs for every replica',
    { policyServer: { kind: 'vllm', launch: { gpus: ['1'], environment: { CUDA_VISIBLE_DEVICES: '0' } } } },
    'policyServer.launch.environment.CUDA_VISIBLE_DEVICES',
  ],
  [
    'a secret in a stored recipe',
    { policyServer: { kind: 'vllm', launch: { environment: { HF_TOKEN: 'hf_x' } } } },
    'policyServer.launch.environment.HF_TOKEN',
  ],
  [
    'a password in an address',
    { policyServer: { kind: 'vllm', url: 'http://me:secret@gpu-1:8000' } },
    'policyServer.url',
  ],
  [
    'an address with a query',
    { policyServer: { kind: 'sglang', url: 'http://gpu-1:8000', replicas: ['http://gpu-2:8000/?key=x'] } },
    'policyServer.replicas[0]',
  ],
  [
    'one server twice',
    { policyServer: { kind: 'vllm', url: 'http://gpu-1:8000', replicas: ['http://GPU-1:8000/'] } },
    'policyServer.replicas[0]',
  ],
  ['a lease that no server heeds', { policyServer: { kind: 'vllm', leaseS: 900 } }, 'policyServer.leaseS'],
  ['filters for tasks without anything to filter', { data: { filters: { maxFiles: 7 } } }, 'data.filters.maxFiles'],
  ['a demonstration that the profile lacks', { rft: { demonstration: true } }, 'rft.demonstration'],
  ['the same while evaluating', { evaluate: { demonstration: true } }, 'evaluate.demonstration'],
  ['an end of a rate that stays', { reinforce: { optim: { endLr: 1e-5 } } }, 'reinforce.optim.endLr'],
  [
    'a rate that would end within the first iteration',
    { reinforce: { optim: { schedule: 'cosine' } } },
    'reinforce.optim.schedule',
  ],
  [
    'a warm-up that fine-tuning has used up',
    { reinforce: { optim: { warmupSteps: 10 } } },
    'reinforce.optim.warmupSteps',
  ],
  ['adapters of no size', { model: { train: 'lora' } }, 'model.lora'],
  ['adapters without training', { model: { lora: { rank: 8, alpha: 16 } } }, 'model.lora'],
  ['offloaded activations that are not kept', { trainer: { offload: 'both' } }, 'trainer.offload'],
  ['an optimizer moved from the host to the host', { trainer: { offload: 'optimizer' } }, 'trainer.offload'],
  ['one process for two ranks', { trainer: { ranksPerNode: 2 } }, 'trainer.launcher'],
  ['torchrun over two machines', { trainer: { launcher: 'torchrun', nodes: 2 } }, 'trainer.nodes'],
  ['options of another launcher', { trainer: { slurm: { partition: 'gpu' } } }, 'trainer.slurm'],
  ['a job that outlasts its activity', { trainer: { timeoutS: 600_000 } }, 'trainer.timeoutS'],
  [
    'a command that outlasts its turn',
    { scaffold: { limits: { commandTimeoutS: 3_600 } } },
    'scaffold.limits.commandTimeoutS',
  ],
  [
    'an episode whose replay outlasts its activity',
    { rollout: { episodeTimeoutS: 90_000 } },
    'rollout.episodeTimeoutS',
  ],
  [
    'a job of Slurm that may run beside its like',
    { trainer: { launcher: 'slurm', slurm: { extra: ['--dependency=afterok:1'] } } },
    'trainer.slurm.extra',
  ],
  ...[
    '--dependency none',
    '--depend=none',
    '--exclusive --dependency=none',
    '--exclusive -J other',
    '--clusters=b',
  ].map((line): [name: string, overrides: Record<string, unknown>, path: string] => [
    `Slurm's ${line}`,
    { trainer: { launcher: 'slurm', slurm: { extra: [line] } } },
    'trainer.slurm.extra',
  ]),
  ['docker without an image', { trainer: { launcher: 'docker' } }, 'trainer.docker'],
  ['a turn longer than the context', { scaffold: { limits: { maxTokensPerTurn: 640 } } }, 'rft.context'],
  ['a network that leads nowhere', { sandbox: { network: 'proxy' } }, 'sandbox.allow'],
  ['hosts that are allowed but not reached', { sandbox: { allow: ['pypi.org'] } }, 'sandbox.network'],
  [
    'a refill that has nothing to draw from',
    { data: { train: { count: 10 } }, rft: { tasks: 10 }, reinforce: { filter: { refill: 2 } } },
    'reinforce.filter.refill',
  ],
  ['limits of a stage that is never trained', limitsOf('dapo-2', 640), 'evaluate.limits.dapo-2'],
  ['limits that leave no room for a turn', limitsOf('dapo-1', 56), 'evaluate.limits.dapo-1.context'],
  ['a container that asks for more than it may use', { sandbox: { request: { cpu: 2 } } }, 'sandbox.request.cpu'],
]
for (const [name, overrides, path] of impossible) {
  test(`refuses an impossible combination: ${name}`, async () => {
    const { code, message } = await refusal({ name: 'demo', dirs, overrides })
    assert.equal(code, 'Config.Invalid')
    assert.ok(message.includes(`recipe/combination ${path}: `), message)
  })
}

test('refuses a text with a NUL or half a character at its key', async () => {
  for (const [launch, path, what] of [
    [{ program: 'vl\0lm' }, 'program', 'a NUL character'],
    [{ arguments: ['a', 'b\0'] }, 'arguments[1]', 'a NUL character'],
    [{ environment: { A: '\0' } }, 'environment.A', 'a NUL character'],
    [{ program: '\ud800' }, 'program', 'half of a character'],
  ] as const) {
    const overrides = { policyServer: { kind: 'vllm', launch } }
    const { code, message } = await refusal({ name: 'demo', dirs, overrides })
    assert.equal(code, 'Config.Invalid')
    assert.ok(message.includes(`policyServer.launch.${path}: expected text, got text with ${what}`), message)
  }
})

test('describes the expected form of a text in words and shows no secret', async () => {
  const one = { policyServer: { kind: 'vllm', launch: { host: 'x y' } } }
  assert.match(
    (await refusal({ name: 'demo', dirs, overrides: one })).message,
    /expected an address or a name, got "x y"/,
  )
  const two = { policyServer: { kind: 'vllm', launch: { environment: { 'A B': '' } } } }
  assert.match(
    (await refusal({ name: 'demo', dirs, overrides: two })).message,
    /expected the name of an environment variable, got "A B"/,
  )
  const three = { trainer: { launcher: 'slurm', slurm: { partition: 'a b', extra: ['x'], python: 'bin/python' } } }
  const { message } = await refusal({ name: 'demo', dirs, overrides: three })
  assert.match(message, /partition: expected letters, digits and \. _ @ \/ -, got "a b"/)
  assert.match(message, /extra\[0\]: expected an option of sbatch on one line/)
  assert.match(message, /python: expected an absolute path, got "bin\/python"/)
  const four = { policyServer: { kind: 'chat', chat: { apiKeyVariable: 'sk-proj-abc' } } }
  const keyed = (await refusal({ name: 'nightly', dirs, overrides: four })).message
  assert.match(keyed, /expected the name of an environment variable, got another text/)
  assert.doesNotMatch(keyed, /sk-proj/)
})

test('refuses a stage name that means another part of a run', async () => {
  const demo = await readFile(join(recipes, 'demo.yaml'), 'utf8')
  const folders = RECORD_KINDS.flatMap(({ example }) => /^runs\/\*\/([a-z-]+)\//.exec(example)?.[1] ?? [])
  assert.ok(folders.length > 10)
  for (const name of ['base', 'rft', 'rl', 'eval-x', 'dapo-0001', 'report', ...folders]) {
    const { message } = await refusal({ name: 'demo', text: demo.replace('name: dapo-1', `name: ${name}`) })
    assert.match(message, /recipe\/combination reinforce\.stages\[0\]\.name: expected another name/, name)
  }
})

test('refuses a turn penalty that starts at the turn limit and names the stage', async () => {
  const text = (await readFile(join(recipes, 'demo.yaml'), 'utf8')).replace('penaltyStart: 4', 'penaltyStart: 6')
  const { message } = await refusal({ name: 'demo', text })
  assert.match(
    message,
    /^demo\.yaml:\d+:21 error recipe\/combination reinforce\.stages\[0\]\.penaltyStart: expected less/m,
  )
})

test('a chat endpoint needs only kind and url, and a key in place of its variable is refused', async () => {
  const overrides = { policyServer: { kind: 'chat', url: 'https://host/v1' }, model: { base: 'big' } }
  const { recipe } = await loadRecipe({ name: 'nightly', dirs, overrides })
  assert.deepEqual(recipe.policyServer.chat, {
    apiKeyVariable: null,
    requestTimeoutS: 600,
    stream: false,
    seed: true,
    samplingFields: 'standard',
    maxTokensField: 'max_tokens',
  })
  const chat = { apiKeyVariable: 'sk-proj-abc' }
  const { code } = await refusal({ name: 'nightly', dirs, overrides: { policyServer: { kind: 'chat', chat } } })
  assert.equal(code, 'Config.Invalid')
})

test('a number with a zero before it is refused: YAML 1.1 reads it as octal and YAML 1.2 as decimal', async () => {
  const text = await readFile(join(recipes, 'mini.yaml'), 'utf8')
  for (const [digits, decimal] of [
    ['017', '17'],
    ['-007', '-7'],
    ['00', '0'],
  ] as const) {
    await assert.rejects(loadRecipe({ name: 'x', text: text.replace(/^seed: .*/m, `seed: ${digits}`) }), {
      code: 'Config.Invalid',
      message: new RegExp(
        `x\\.yaml:5:7 .*without a zero before it, got ${digits}: write ${decimal}, or "${digits}" for text`,
      ),
    })
  }
  for (const fine of ['0', '0o17', '0x10'])
    assert.ok(await loadRecipe({ name: 'x', text: text.replace(/^seed: .*/m, `seed: ${fine}`) }))
})

test('a number with a unit or in quotes, and yes and no, are refused with how to write them', async () => {
  const text = await readFile(join(recipes, 'mini.yaml'), 'utf8')
  for (const [from, to, hint] of [
    ['memGiB: 0.5', 'memGiB: 512MiB', 'write the number alone, in the unit of the key'],
    ['episodeTimeoutS: 300', 'episodeTimeoutS: 5 m', 'write the number alone, in the unit of the key'],
    ['seed: 1', 'seed: 1_000k', 'write the number alone, in the unit of the key'],
    ['seed: 1', 'seed: "7"', 'write 7 without quotes'],
    ['refill: false', 'refill: no', 'YAML reads no as text: write false'],
  ] as const) {
    assert.ok(text.includes(from))
    await assert.rejects(loadRecipe({ name: 'x', text: text.replace(from, to) }), (error: Error) => {
      assert.ok(error.message.includes(`hint: ${hint}`), error.message)
      return true
    })
  }
})
