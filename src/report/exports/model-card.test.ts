import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'yaml'
import { makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { HOSTILE } from '../../../test/support/hostile-texts.ts'
import { type ModelFacts, renderModelCard } from './model-card.ts'

const REVISION = '1cfa9a7208912126459214e8b04321603b3df60c'
const ORIGIN = { model: 'Qwen/Qwen3-4B', revision: REVISION }

const BASE: ModelFacts = {
  policy: { version: 'v000000-1a2b3c4d', manifestSha256: 'ab'.repeat(32), globalStep: 0 },
  run: null,
  recipe: null,
  chatFormat: 'chatml',
  base: null,
  origin: ORIGIN,
  training: [],
  suites: [],
  licenses: [],
  evaluations: [],
}

function card(facts: ModelFacts): { header: Record<string, unknown>; body: string } {
  const input = {
    facts,
    kind: 'model' as const,
    repository: 'team/repair',
    branch: 'main',
    license: null,
    serve: [],
    files: [],
  }
  const [, front = '', body = ''] = /^---\n([\s\S]*?\n)---\n([\s\S]*)$/.exec(renderModelCard(input)) ?? []
  return { header: parse(front) as Record<string, unknown>, body }
}

test('the card of a base policy without records states what is unknown and claims nothing', () => {
  const { header, body } = card(BASE)
  assert.deepEqual(header, {
    license: 'unknown',
    library_name: 'transformers',
    pipeline_tag: 'text-generation',
    base_model: 'Qwen/Qwen3-4B',
    tags: ['longhaul', 'software-engineering', 'agent'],
  })
  assert.match(body, /No evaluation of this policy is stored/)
  assert.match(body, /its licence is unknown/)
  assert.match(body, /longhaul policy-server command repair/)
})

test('a trained policy is a fine-tune of its base on the hub', () => {
  const policy = { ...BASE.policy, globalStep: 3 }
  const base = { version: 'v000000-00000000', manifestSha256: 'cd'.repeat(32), origin: ORIGIN }
  const training = [{ stage: 'rft', jobs: 1, steps: 3 }]
  const { header, body } = card({ ...BASE, policy, base, training, origin: null })
  assert.deepEqual([header['base_model'], header['base_model_relation']], ['Qwen/Qwen3-4B', 'finetune'])
  // Only fine-tuned: no tag says otherwise.
  assert.deepEqual(header['tags'], ['longhaul', 'software-engineering', 'agent'])
  assert.match(body, /the records of its run are not stored any more/)
})

test('an evaluation without an interval or an audit has a score without them', () => {
  const record = makeEvaluation({ tasks: [{ taskId: 'a', attempts: ['infra'] }] })
  const { header, body } = card({ ...BASE, evaluations: [{ record, origin: null }] })
  assert.match(body, /\| not audited \|/)
  const [{ results }] = header['model-index'] as [{ results: { dataset: object; metrics: object[] }[] }]
  assert.equal(results[0]?.metrics.length, 1)
})

test('any text of a record is one scalar of the front matter and one cell of the page', () => {
  for (const text of [HOSTILE, ...HOSTILE.split('\n'), '---\nlicense: mit', '| a | [b](c) `d` @team']) {
    const record = { ...makeEvaluation({ tasks: [{ taskId: 'a', attempts: [1] }] }), suite: text, run: text }
    const origin = {
      schema: 'longhaul.suite-origin/1',
      dataset: text,
      revision: text,
      split: text,
      files: [],
      filters: [],
    } as const
    const suites = [{ suite: text, uses: [text], tasks: 1, origin: { ...origin, files: [], filters: [] } }]
    const facts: ModelFacts = {
      ...BASE,
      policy: { ...BASE.policy, globalStep: 1 },
      run: text,
      chatFormat: text,
      licenses: [{ name: text, tasks: 1 }],
      training: [{ stage: text, jobs: 1, steps: 1 }],
      suites,
      evaluations: [{ record, origin: { ...origin, files: [], filters: [] } }],
    }
    const { header, body } = card(facts)
    assert.equal(header['license'], 'unknown')
    assert.deepEqual(Object.keys(header).toSorted(), [
      'base_model',
      'library_name',
      'license',
      'model-index',
      'pipeline_tag',
      'tags',
    ])
    const tables = body.split('\n').filter((line) => line.startsWith('|'))
    const cells = tables.find((line) => line.startsWith('| run |'))?.split('|').length
    assert.equal(cells, 4, text)
    assert.ok(!/<(?:img|script)/i.test(body))
  }
})
