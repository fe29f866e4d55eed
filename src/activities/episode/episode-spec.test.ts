import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { createSettingResolver, episodeSpec } from './episode-spec.ts'

const dirs = [fileURLToPath(new URL('../../../recipes', import.meta.url))]

test('the spec states the chat format, except for the default one that older records omit', async () => {
  const { recipe } = await loadRecipe({ name: 'demo', dirs })
  const place = { run: 'r', stage: 'rft', iteration: 0, taskId: 't', index: 0, policy: 'v', suite: 's' }
  assert.equal('chatFormat' in episodeSpec(recipe, place), false)
  const llama = { ...recipe, model: { ...recipe.model, chatFormat: 'llama3' as const } }
  const spec = episodeSpec(llama, place)
  assert.equal(spec.chatFormat, 'llama3')
  const resolve = createSettingResolver({ tasks: () => Promise.resolve({ taskId: 't' } as Task) })
  assert.equal((await resolve(spec)).format.endOfTurn, '<|eot_id|>')
  assert.equal((await resolve(episodeSpec(recipe, place))).format.endOfTurn, '<|im_end|>')
})

test('paper-72b plays and scores each stage under its own limits', async () => {
  const { recipe } = await loadRecipe({ name: 'paper-72b', dirs })
  const limits = (stage: string): number[] => {
    const place = { run: 'r', stage, iteration: 0, taskId: 't', index: 0, policy: 'v', suite: 's' }
    const { maxTurns, contextTokens } = episodeSpec(recipe, place).limits
    return [maxTurns, contextTokens]
  }
  for (const stage of ['rft', 'stage1', 'eval-rft', 'eval-stage1', 'eval-stage1-0005', 'eval-rft.rebench_2025_05']) {
    assert.deepEqual(limits(stage), [40, 65_536], stage)
  }
  for (const stage of [
    'stage2',
    'eval-base',
    'eval-stage2-0005',
    'eval-rl',
    'eval-rl.rebench_2025_06',
    'eval-nightly',
  ]) {
    assert.deepEqual(limits(stage), [80, 131_072], stage)
  }
})
