/** A search attribute that is registered and never written is a filter that finds nothing, and one that is not registered fails a run. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { attributes } from '../../src/workflows/search-attributes.ts'
import { PLAN, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { createWorkflowDriver } from '../support/workflow-driver.ts'

const registered = JSON.parse(
  readFileSync(new URL('../../infra/temporal/search-attributes.json', import.meta.url), 'utf8'),
) as Record<string, string>

test('workflows use exactly the registered attributes, with the same types', () => {
  const named = Object.fromEntries(Object.values(attributes).map(({ name, type }) => [name, type]))
  const types = Object.fromEntries(Object.entries(registered).map(([name, type]) => [name, type.toUpperCase()]))
  assert.deepEqual(named, types)
})

test('a whole run writes each registered attribute', async () => {
  const plan = {
    ...PLAN,
    rft: false,
    stages: [{ name: 'dapo-1', maxIterations: 1 }],
    labels: { model: 'qwen3-4b', split: 'nebius/SWE-rebench-leaderboard/2026_02' },
  }
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ plan, tasks: 1, groupSize: 1, steps: 1 }),
  })
  const job = driver.start('trainAgent', { recipe: 'demo', gitSha: 'a'.repeat(40) })
  await job.result()
  const written = new Set(driver.runs.flatMap(({ searchAttributes }) => Object.keys(searchAttributes)))
  assert.deepEqual(
    Object.keys(registered).filter((name) => !written.has(name)),
    [],
  )
})
