/** A whole evaluation through a running chat server: its replies are played, counted and graded. */
import assert from 'node:assert/strict'
import { readOrThrow } from '../../../src/activities/runtime/stored-records.ts'
import { startEvaluation } from '../../../src/client/index.ts'
import type { EvaluationRecord } from '../../../src/contracts/evaluations.types.ts'
import { HANG_MS } from '../hang.ts'
import { attachWorld } from '../pipeline-world.ts'
import { episodesOf } from '../run-records.ts'
import { withDeadline } from '../with-deadline.ts'
import { CHAT_SETTINGS, type ChatServer } from './chat-behaviour.ts'

/** A variable that every process of the stack has; its value serves as the key. */
const KEY_VARIABLE = 'LONGHAUL_STACK'

/** The key that the stack's workers send; `otherwise` if no stack runs. */
export function stackKey(otherwise: string): string {
  return process.env[KEY_VARIABLE] ?? otherwise
}

export async function playChatEvaluation({
  url,
  model,
  context,
}: Pick<ChatServer, 'url' | 'model' | 'context'>): Promise<void> {
  const world = await attachWorld()
  try {
    const handle = await startEvaluation({
      connection: world.connection,
      recipe: 'nightly',
      overrides: {
        model: { base: model },
        data: {
          heldOut: { kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'eval', count: 2, offset: 0 },
        },
        scaffold: { profile: 'paper', limits: { maxTokensPerTurn: 200 } },
        evaluate: { tasks: 2, attempts: 1, maxTurns: 2, context },
        policyServer: { kind: 'chat', url: url(), chat: { ...CHAT_SETTINGS, apiKeyVariable: KEY_VARIABLE } },
      },
      fresh: true,
    })
    const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation')
    assert.equal(ended.status, 'completed', JSON.stringify(ended))
    if (ended.status !== 'completed') return
    const { score, infra } = await readOrThrow<EvaluationRecord>(world.store, ended.result.evaluation.key)
    assert.deepEqual([score.tasks, infra], [2, 0])
    const episodes = await episodesOf(world.store, ended.result.run)
    for (const { disposition, verdict, turns, usage, sampledTokens } of episodes) {
      assert.deepEqual([disposition, verdict, turns], ['turn-limit', 'unresolved', 2])
      assert.ok(usage, 'nothing was counted')
      assert.equal(usage.completionTokens, sampledTokens)
      assert.ok(usage.completionTokens > 0 && usage.promptTokens > 100, JSON.stringify(usage))
    }
  } finally {
    await world.close()
  }
}
