/** Workflows that people start by hand, with inputs that no client of ours sends: one clear error, and nothing is played or recorded. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/common'
import { EPISODE, PLAN, ROLLOUT, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { createWorkflowDriver } from '../support/workflow-driver.ts'

const REFUSED: readonly [type: string, input: unknown, said: RegExp][] = [
  [
    'trainAgent',
    null,
    /^Expected trainAgent to be started with one JSON object, such as \{"recipe": "demo"\}, got null$/,
  ],
  ['trainAgent', 'paper-72b', /one JSON object, .* got "paper-72b"$/],
  ['trainAgent', ['paper-72b'], /one JSON object, .* got \["paper-72b"\]$/],
  ['trainAgent', 7, /one JSON object, .* got 7$/],
  [
    'trainAgent',
    { recpie: 'paper-72b' },
    /^trainAgent has no input "recpie"; it takes recipe, recipeText, overrides, run, gitSha$/,
  ],
  ['trainAgent', { recipe: 5 }, /^Expected recipe of trainAgent to be a text, got 5$/],
  [
    'trainAgent',
    { recipe: { name: 'x'.repeat(200) } },
    /^Expected recipe of trainAgent to be a text, got \{"name":"x+…$/,
  ],
  ['trainAgent', { overrides: 'seed=1' }, /^Expected overrides of trainAgent to be an object/],
  ['trainAgent', { run: null }, /^Expected run of trainAgent to be a text, got null$/],
  [
    'trainAgent',
    { overrides: null },
    /^Expected overrides of trainAgent to be an object of keys of the recipe, got null$/,
  ],
  ['evaluate', null, /^Expected evaluate to be started with one JSON object/],
  ['evaluate', { child: {} }, /^Expected child of evaluate to be left out/],
  ['evaluate', { child: 'base' }, /^Expected child of evaluate to be left out/],
  ['evaluate', { recipe: 'nightly', polcy: 'base' }, /^evaluate has no input "polcy"/],
  ['evaluate', { series: 5 }, /^Expected series of evaluate to be a text/],
  ['gateSuite', null, /^Expected gateSuite to be started with one JSON object/],
  ['gateSuite', { which: 'test' }, /^Expected which of gateSuite to be "train" or "heldOut", got "test"$/],
  ['gateSuite', { page: {} }, /^Expected page of gateSuite to be left out/],
  ['gradePredictions', null, /^Expected gradePredictions to be started with one JSON object/],
  ['gradePredictions', { opened: {}, from: 3 }, /^Expected opened of gradePredictions to be left out/],
  ['gradePredictions', { stages: 'base' }, /^Expected stages of gradePredictions to be a list/],
  ['rejectionFineTune', {}, /^Expected plan of rejectionFineTune to be a resolved run, got nothing$/],
  ['reinforce', null, /^Expected reinforce to be started with its input, got null$/],
  ['reinforce', { plan: PLAN }, /^Expected stageIndex of reinforce/],
  ['rollout', {}, /^Expected run of rollout to be the name of a run/],
  [
    'rollout',
    { ...ROLLOUT, maxOpenGroups: 'many' },
    /^Expected maxOpenGroups of rollout to be a whole number, got "many"$/,
  ],
  ['rollout', { ...ROLLOUT, plan: null }, /^Expected plan of rollout/],
  ['promptGroup', {}, /^Expected run of promptGroup/],
  ['episode', null, /^Expected episode to be started with its input, got null$/],
  [
    'episode',
    { ...EPISODE, run: '../../etc' },
    /^Expected run of episode to be the name of a run, got "\.\.\/\.\.\/etc"$/,
  ],
  ['episode', { ...EPISODE, index: -1 }, /^Expected index of episode/],
  ['gateTasks', { plan: PLAN }, /^Expected suite of gateTasks/],
  ['readEvaluation', {}, /^Expected run of readEvaluation/],
  ['host', {}, /^Expected host of host/],
  ['watch', null, /^Expected watch to be started with its input/],
  ['watch', {}, /^Expected receiver of watch to be a receiver of alarms, got nothing$/],
  [
    'watch',
    { receiver: { urlVariable: 'ALARMS', secretVariable: null, template: 'json' } },
    /^Expected blockerMinutes of watch to be a number, got nothing$/,
  ],
]

test('refuses each invalid input with one line and calls no activity', async () => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline() })
  for (const [place, [type, input, said]] of REFUSED.entries()) {
    const root = driver.start(type, input, { workflowId: `root-${place}` })
    await assert.rejects(root.result(), (error) => {
      assert.ok(error instanceof ApplicationFailure, String(error))
      assert.equal(error.type, 'Config.Invalid')
      assert.match(error.message, said)
      assert.ok(error.message.length < 300 && !error.message.includes('\n'), error.message)
      return true
    })
  }
  assert.deepEqual(driver.calls, [])
})

test('refuses two arguments, because the second would be ignored', async () => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline() })
  const root = driver.start('trainAgent', { recipe: 'demo' }, { further: [{ run: 'mine' }] })
  await assert.rejects(root.result(), /Expected trainAgent to be started with one JSON object, .* got 2 arguments/)
})

for (const [said, input] of [
  ['no input', undefined],
  ['an empty object', {}],
] as const) {
  test(`${said} gives the defaults, as the start form of the Temporal UI sends it`, async () => {
    const driver = await createWorkflowDriver({ activities: scriptedPipeline() })
    await driver.start('trainAgent', input).result()
    const [resolved] = driver.callsOf('resolveRecipe').map((call) => call.input as { recipe: unknown })
    assert.equal(resolved?.recipe, 'demo')
  })
}
