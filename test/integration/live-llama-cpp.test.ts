/**
 * A running llama.cpp behind the chat adapter: what it answers, refuses and counts, and a whole evaluation. The model is tiny and random:
 * what is proven is the way to the server and that an imported GGUF file is the model that the server runs.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import { type ChatClientOptions, createChatClient } from '../../src/adapters/chat-endpoint/chat-client.ts'
import { startEvaluation } from '../../src/client/index.ts'
import type { EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { ChatRequest } from '../../src/contracts/policy.types.ts'
import type { ChatRecipe } from '../../src/contracts/recipe.types.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { askUntilAtWork, type LiveEngine } from '../support/live-engine/engine-process.ts'
import { findLlamaCpp, startLlamaCpp } from '../support/live-engine/llama-cpp.ts'
import { freePort } from '../support/loopback.ts'
import { attachWorld, needsStack } from '../support/pipeline-world.ts'
import { runPython, withoutPython } from '../support/python.ts'
import { episodesOf } from '../support/run-records.ts'
import { withDeadline } from '../support/with-deadline.ts'

const found = withoutPython === false ? await findLlamaCpp() : { skip: withoutPython }
const NAME = 'tiny'
const KEY = 'a-key-of-the-test'
/** A variable that every process of the stack has: its value stands for a key. */
const KEY_VARIABLE = 'LONGHAUL_STACK'
const CONTEXT = 8_192
const SETTINGS: Omit<ChatRecipe, 'apiKeyVariable'> = {
  requestTimeoutS: 120,
  stream: false,
  seed: true,
  samplingFields: 'all',
  maxTokensField: 'max_tokens',
}
/** Rows of ids, as the tokenizer of the tiny model has them. */
const PROMPTS = [[256, 40, 41, 42], Array.from({ length: 60 }, (_, at) => (at * 37) % 250), [7, 7, 7, 7, 7, 7, 7]]
/** fp32 on both sides: what is left is the order of additions. */
const TOLERANCE = 1e-3

/** Makes a model, its GGUF file and the policy imported of that; prints what the policy says comes after each prompt. */
const MAKE = `
import json, pathlib, sys, torch
sys.path.append(sys.argv[2])
from import_sources import Made, logits, make_directory, make_gguf
from longhaul_trainer.importer.command import ImportOptions, run_import
root = pathlib.Path(sys.argv[1])
made = Made(family='llama', rope='llama3', chat='llama3', dtype=torch.float32)
file = make_gguf(root / 'model.gguf', make_directory(root / 'model', made), kind='F32')
run_import(ImportOptions(file, root / 'policy'))
rows = [logits(root / 'policy', torch.tensor([ids]))[0, -1].double().log_softmax(-1) for ids in json.loads(sys.argv[3])]
print(json.dumps([row.tolist() for row in rows]))
`

describe('a running llama.cpp', { skip: 'skip' in found ? found.skip : false }, () => {
  const signal = AbortSignal.timeout(3 * HANG_MS)
  let root: string
  let port: number
  let expected: number[][]
  let server: LiveEngine

  before(async () => {
    assert.ok('python' in found)
    root = await mkdtemp(join(tmpdir(), 'longhaul-llama-cpp-'))
    port = await freePort()
    const packages = join(found.python, '../../lib/python3.11/site-packages')
    const printed = await runPython(MAKE, root, packages, JSON.stringify(PROMPTS))
    expected = JSON.parse(printed.split('\n').at(-1) ?? '') as number[][]
    server = await start()
  })
  after(async () => {
    await server?.kill()
    await rm(root, { recursive: true, force: true })
  })

  test('it computes what the policy imported of its file computes', async () => {
    for (const [at, prompt] of PROMPTS.entries()) {
      const row = expected[at] ?? []
      const answer = await fetch(`${server.url}/completion`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        // It tells no probabilities of a token that is half a character. The grammar restricts what is sampled, not what is told.
        body: JSON.stringify({
          prompt,
          n_predict: 1,
          n_probs: row.length,
          temperature: 1,
          cache_prompt: false,
          grammar: 'root ::= [ -~]+',
        }),
        signal,
      })
      const body = (await answer.json()) as {
        completion_probabilities: [{ top_logprobs: { id: number; logprob: number }[] }]
      }
      const told = body.completion_probabilities[0].top_logprobs
      assert.equal(new Set(told.map(({ id }) => id)).size, row.length)
      for (const { id, logprob } of told) {
        const policy = row[id] ?? Number.NaN
        assert.ok(
          Math.abs(logprob - policy) < TOLERANCE,
          `prompt ${at}, id ${id}: ${logprob}, the policy says ${policy}`,
        )
      }
    }
  })

  test('the check passes; a name that it does not list, fields that it lacks and a wrong key are refused', async () => {
    await client().check(signal)
    for (const change of [
      { model: 'another' },
      { settings: { ...SETTINGS, samplingFields: 'standard' as const } },
      { apiKey: 'wrong' },
    ]) {
      await assert.rejects(client(change).check(signal), { code: 'Config.Invalid' })
    }
  })

  test('a wrong key and a wrong address are no model that may be served later', async () => {
    await assert.rejects(client({ apiKey: 'wrong' }).reply(request(), signal), { code: 'Config.Invalid' })
    await assert.rejects(client({ url: `${server.url}/v2` }).reply(request(), signal), { code: 'Config.Invalid' })
  })

  test('a reply is a function of its seed, ends at its limit and is counted', async () => {
    const first = await client().reply(request({ maxTokens: 5 }), signal)
    const again = await client().reply(request({ maxTokens: 5 }), signal)
    const other = await client().reply(request({ maxTokens: 5, seed: 8 }), signal)
    assert.equal(again.text, first.text)
    assert.notEqual(other.text, first.text)
    assert.deepEqual([first.answer.model, first.answer.ending], [NAME, 'length'])
    assert.equal(first.answer.usage?.completionTokens, 5)
    assert.ok((again.answer.usage?.cachedTokens ?? 0) > 0, JSON.stringify(again.answer.usage))
    const long = await client().reply(request({ maxTokens: 4_000 }), signal)
    assert.equal(long.answer.ending, 'stop')
  })

  test('a streamed reply is the reply; one that is given up ends in the server, and one beyond the context is an overflow', async () => {
    const streamed = client({ settings: { ...SETTINGS, stream: true } })
    const [whole, inParts] = [await client().reply(request(), signal), await streamed.reply(request(), signal)]
    assert.deepEqual([inParts.text, inParts.answer.model], [whole.text, NAME])
    assert.deepEqual(
      [inParts.answer.ending, inParts.answer.usage?.completionTokens],
      [whole.answer.ending, whole.answer.usage?.completionTokens],
    )
    const content = 'repair '.repeat(2 * CONTEXT)
    await assert.rejects(streamed.reply(request({ messages: [{ role: 'user', content }] }), signal), {
      code: 'Model.ContextOverflow',
    })
    const given = new AbortController()
    const reason = new Error('the episode was cancelled')
    const asked = await askUntilAtWork({ ask: () => manyLong(given.signal, streamed), running })
    given.abort(reason)
    for (const end of await Promise.allSettled(asked)) {
      assert.ok(end.status === 'fulfilled' || end.reason === reason, JSON.stringify(end))
    }
    await eventually(async () => assert.equal(await running(), 0))
  })

  test('every field of sampling arrives', async () => {
    const reply = async (sampling: Partial<ChatRequest['sampling']>) => {
      const { text } = await client().reply(request({ sampling: { ...NEUTRAL_SAMPLING, ...sampling } }), signal)
      return text
    }
    const plain = await reply({})
    const greedy = await reply({ temperature: 0 })
    assert.notEqual(plain, greedy)
    for (const only of [{ topK: 1 }, { topP: 1e-6 }, { minP: 1 }]) assert.equal(await reply(only), greedy)
    for (const penalty of [{ repetitionPenalty: 3 }, { presencePenalty: 2 }, { frequencyPenalty: 2 }]) {
      assert.notEqual(await reply({ temperature: 0, ...penalty }), greedy, JSON.stringify(penalty))
    }
  })

  test('a prompt beyond its context is an overflow', async () => {
    const content = 'repair '.repeat(2 * CONTEXT)
    await assert.rejects(client().reply(request({ messages: [{ role: 'user', content }] }), signal), {
      code: 'Model.ContextOverflow',
    })
  })

  test('sixty-four requests at once: each is answered to its own prompt', async () => {
    const alone = await client().reply(request({ messages: [{ role: 'user', content: '' }] }), signal)
    assert.ok(alone.answer.usage !== null)
    const counts = await Promise.all(
      Array.from({ length: 64 }, async (_, at) => {
        // In no merge: one token each.
        const content = '\u0001'.repeat(at + 1)
        const { answer } = await client().reply(request({ seed: at, messages: [{ role: 'user', content }] }), signal)
        return answer.usage?.promptTokens ?? Number.NaN
      }),
    )
    const [shortest = Number.NaN] = counts
    assert.deepEqual(
      counts,
      counts.map((_, at) => shortest + at),
    )
  })

  test('a request that is given up ends in the server too, with the reason of its signal', async () => {
    const given = new AbortController()
    const reason = new Error('the episode was cancelled')
    const asked = await askUntilAtWork({ ask: () => manyLong(given.signal), running })
    given.abort(reason)
    const ends = await Promise.allSettled(asked)
    const refused = ends.filter((end) => end.status === 'rejected')
    assert.ok(refused.length > 0, 'all had ended before they were given up')
    for (const end of refused) assert.equal(end.reason, reason)
    await eventually(async () => assert.equal(await running(), 0))
  })

  test('it is killed amid its work: the one that is started in its place finishes it', async () => {
    const asked = await askUntilAtWork({ ask: () => manyLong(signal), running })
    await server.kill()
    server = await start()
    for (const { answer } of await Promise.all(asked)) assert.equal(answer.model, NAME)
  })

  test('a whole evaluation: its replies are played, counted and graded', { skip: needsStack }, async () => {
    const world = await attachWorld()
    try {
      const handle = await startEvaluation({
        connection: world.connection,
        recipe: 'nightly',
        overrides: {
          model: { base: NAME },
          data: {
            heldOut: { kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'eval', count: 2, offset: 0 },
          },
          scaffold: { profile: 'paper', limits: { maxTokensPerTurn: 200 } },
          evaluate: { tasks: 2, attempts: 1, maxTurns: 2, context: CONTEXT },
          policyServer: { kind: 'chat', url: server.url, chat: { ...SETTINGS, apiKeyVariable: KEY_VARIABLE } },
        },
        fresh: true,
      })
      const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation')
      assert.equal(ended.status, 'completed', JSON.stringify(ended))
      if (ended.status !== 'completed') return
      const { score, infra } = await readOrThrow<EvaluationRecord>(world.store, ended.result.evaluation.key)
      assert.deepEqual([score.tasks, infra], [2, 0])
      for (const { disposition, verdict, turns, usage, sampledTokens } of await episodesOf(
        world.store,
        ended.result.run,
      )) {
        assert.deepEqual([disposition, verdict, turns], ['turn-limit', 'unresolved', 2])
        assert.ok(usage, 'nothing was counted')
        assert.equal(usage.completionTokens, sampledTokens)
        assert.ok(usage.completionTokens > 0 && usage.promptTokens > 100, JSON.stringify(usage))
      }
    } finally {
      await world.close()
    }
  })

  function start(): Promise<LiveEngine> {
    assert.ok('python' in found)
    return startLlamaCpp({
      python: found.python,
      model: join(root, 'model.gguf'),
      name: NAME,
      keys: [KEY, process.env[KEY_VARIABLE] ?? KEY],
      port,
      slots: 4,
      context: CONTEXT,
      log: join(root, 'llama-cpp.log'),
    })
  }

  function client(changes: Partial<ChatClientOptions> = {}) {
    return createChatClient({ url: server.url, model: NAME, settings: SETTINGS, apiKey: KEY, ...changes })
  }

  function request(changes: Partial<ChatRequest> = {}): ChatRequest {
    return {
      messages: [
        { role: 'system', content: 'be good' },
        { role: 'user', content: 'repair it' },
      ],
      maxTokens: 40,
      seed: 7,
      sampling: NEUTRAL_SAMPLING,
      session: 'run/eval-nightly/0000/task/00',
      ...changes,
    }
  }

  /** Work for some seconds: one alone may end with its first token. */
  function manyLong(until: AbortSignal, by = client()) {
    return Array.from({ length: 64 }, (_, at) => {
      const asked = by.reply(request({ seed: at, maxTokens: 4_000 }), until)
      asked.catch(() => undefined)
      return asked
    })
  }

  /** Requests that it works on, by its own account. */
  async function running(): Promise<number> {
    const answer = await fetch(`${server.url}/slots`, { headers: { authorization: `Bearer ${KEY}` }, signal })
    const slots = (await answer.json()) as { is_processing: boolean }[]
    return slots.filter((slot) => slot.is_processing).length
  }
})
