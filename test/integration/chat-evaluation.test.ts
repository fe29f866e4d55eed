/**
 * A whole evaluation of a model behind a chat endpoint: real server, workers and containers, real HTTP; only what the model says
 * is scripted, and how its endpoint misbehaves.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import { startEvaluation, startTraining } from '../../src/client/index.ts'
import type { EpisodeRecord, EpisodeStart } from '../../src/contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import { episodeKeys } from '../../src/contracts/keys.ts'
import {
  hang,
  json,
  messagesOf,
  runs,
  type ScriptedEndpoint,
  type SeenRequest,
  startScriptedEndpoint,
} from '../support/chat-endpoint/scripted-endpoint.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { endRun } from '../support/run-recipe.ts'
import { episodesOf, leftBehind, turnsOf } from '../support/run-records.ts'
import { withDeadline } from '../support/with-deadline.ts'
import { HANG_MS } from '../support/hang.ts'

const SUITE = { kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'eval', count: 3, offset: 0 } as const
const CONTEXT = 9_000
const PRICES = { perMillionTokens: { input: 1000, cachedInput: 100, output: 2000 } }

/** A variable that every process of the stack has: its value stands for a key. */
const KEY_VARIABLE = 'LONGHAUL_STACK'

let world: PipelineWorld
let endpoint: ScriptedEndpoint
let evaluation: EvaluationRecord
let episodes: EpisodeRecord[]

before(async () => {
  if (needsStack !== false) return
  world = await attachWorld()
  endpoint = await startScriptedEndpoint(playThreeTasks())
  const handle = await startEvaluation({
    connection: world.connection,
    recipe: 'nightly',
    overrides: {
      model: { base: 'big-model' },
      data: { heldOut: SUITE },
      scaffold: { profile: 'paper' },
      evaluate: { tasks: 3, attempts: 1, maxTurns: 3, context: CONTEXT, prices: PRICES },
      policyServer: {
        kind: 'chat',
        url: endpoint.url,
        chat: { apiKeyVariable: KEY_VARIABLE, requestTimeoutS: 3 },
      },
    },
    fresh: true,
  })
  const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation')
  assert.equal(ended.status, 'completed', JSON.stringify(ended))
  if (ended.status !== 'completed') return
  evaluation = await readOrThrow<EvaluationRecord>(world.store, ended.result.evaluation.key)
  episodes = await episodesOf(world.store, ended.result.run)
})

after(async () => {
  await endpoint?.close()
  await world?.close()
})

/**
 * The first task is repaired through every fault that passes, the second is never finished and its endpoint counts nothing, the
 * third writes more than the context holds.
 */
function playThreeTasks() {
  const tasks = synthesizeSuite(SUITE).map(({ row }) => row)
  const faults = [json(429, {}, { 'retry-after': '1' }), json(500, 'oops'), hang, json(200, '<html>')]
  return (request: SeenRequest) => {
    const [, issue, ...rest] = messagesOf(request)
    const place = tasks.findIndex(({ problem_statement: statement }) => issue?.content.includes(statement.trim()))
    const turn = rest.length / 2
    if (place === 0) {
      const fault = faults.shift()
      if (fault !== undefined) return fault
      return turn === 0 ? runs(`git apply <<'END'\n${tasks[0]?.patch ?? ''}\nEND`) : runs('submit')
    }
    if (place === 1) return runs('ls', { usage: undefined })
    return turn === 0 ? runs('ls') : runs('touch beyond', { usage: { prompt_tokens: CONTEXT, completion_tokens: 1 } })
  }
}

function episodeOf(place: number): EpisodeRecord {
  const taskId = synthesizeSuite(SUITE)[place]?.row.instance_id
  const found = episodes.find((episode) => episode.taskId === taskId)
  assert.ok(found !== undefined, `no episode of task ${place}`)
  return found
}

test('a repair by text replies is graded in a container, also after failures of the endpoint', {
  skip: needsStack,
}, async () => {
  const { episode, disposition, verdict, turns, sampledTokens, usage, policy } = episodeOf(0)
  assert.deepEqual([disposition, verdict, turns], ['submitted', 'resolved', 2])
  assert.deepEqual([sampledTokens, usage], [20, { promptTokens: 200, cachedTokens: 120, completionTokens: 20 }])
  assert.match(policy, /^chat-big-model-[0-9a-f]{8}$/)
  const start = await readOrThrow<EpisodeStart>(world.store, episodeKeys.start(episode))
  assert.deepEqual([start.promptIds, start.messages?.map(({ role }) => role)], [[], ['system', 'user']])
  for (const { action } of await turnsOf(world.store, episode)) {
    assert.deepEqual([action.ids, action.logprobs, action.chat?.model], [[], [], 'big-model'])
  }
})

test('an endpoint that reports no token counts leaves the numbers unknown but keeps the episode', {
  skip: needsStack,
}, () => {
  const { disposition, verdict, turns, sampledTokens, usage } = episodeOf(1)
  assert.deepEqual([disposition, verdict, turns], ['turn-limit', 'unresolved', 3])
  assert.deepEqual([sampledTokens, usage], [null, null])
})

test('a reply beyond the context ends the episode, is never executed, and is kept because it was paid for', {
  skip: needsStack,
}, async () => {
  const { episode, disposition, turns, usage } = episodeOf(2)
  assert.deepEqual([disposition, turns], ['context-limit', 1])
  assert.equal(usage?.promptTokens, 100 + CONTEXT)
  const played = await turnsOf(world.store, episode)
  assert.deepEqual(
    played.map(({ action, observation }) => [action.command, observation !== null]),
    [
      ['ls', true],
      ['touch beyond', false],
    ],
  )
})

test('scores one of three tasks without an infra failure and sends the key in every request header', {
  skip: needsStack,
}, async () => {
  const { score, infra, sampledTokens } = evaluation
  assert.deepEqual([score.passAt1.toFixed(3), score.tasks, infra], ['0.333', 3, 0])
  assert.equal(sampledTokens?.tasks, 2)
  assert.ok(endpoint.seen.every(({ headers }) => headers.authorization === `Bearer ${process.env[KEY_VARIABLE]}`))
  assert.deepEqual(await leftBehind(world, evaluation.run), [])
})

test('costs are known only where the endpoint counted tokens', { skip: needsStack }, () => {
  const { cost } = evaluation
  // First task: 80 × 1000 + 120 × 100 + 20 × 2000; third: 40 × 1000 + 60 × 100 + 10 × 2000, and 9000 × 1000 + 2000, not said what of
  // it was cached, which makes the cached count of the whole attempt unknown: 9100 × 1000 + 11 × 2000.
  assert.deepEqual([cost?.graded.toFixed(6), cost?.lost, cost?.unknown], ['9.254000', 0, 1])
  assert.deepEqual([cost?.attempt?.tasks, cost?.prices.currency], [2, 'USD'])
})

test('a training run of a chat recipe is refused before anything is prepared', { skip: needsStack }, async () => {
  const handle = await startTraining({
    connection: world.connection,
    recipe: 'chat-endpoint',
    fresh: true,
  })
  try {
    const outcome = await withDeadline(handle.outcome(), HANG_MS, 'the refusal')
    assert.equal(outcome.status, 'failed')
    assert.match(JSON.stringify(outcome), /Config\.Invalid.*a chat endpoint can only be evaluated/)
  } finally {
    await endRun({ connection: world.connection, workflowId: handle.workflowId })
  }
})
