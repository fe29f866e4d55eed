/**
 * A running llama.cpp behind the chat adapter: what it answers, refuses and counts, and a whole evaluation. The model is tiny and random:
 * what is proven is the way to the server and that an imported GGUF file is the model that the server runs.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { HANG_MS } from '../support/hang.ts'
import { type ChatServer, chatClientOf, chatRequest, describeChat } from '../support/live-engine/chat-behaviour.ts'
import { playChatEvaluation, stackKey } from '../support/live-engine/chat-evaluation.ts'
import type { LiveEngine } from '../support/live-engine/engine-process.ts'
import { findLlamaCpp, startLlamaCpp } from '../support/live-engine/llama-cpp.ts'
import { freePort } from '../support/loopback.ts'
import { needsStack } from '../support/pipeline-world.ts'
import { runPython, withoutPython } from '../support/python.ts'

const found = withoutPython === false ? await findLlamaCpp() : { skip: withoutPython }
const NAME = 'tiny'
const KEY = 'a-key-of-the-test'
const CONTEXT = 8_192
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
  const chat: ChatServer = {
    url: () => server.url,
    model: NAME,
    apiKey: KEY,
    context: CONTEXT,
    ownFilters: { topK: 40, minP: 0.05 },
    running,
    restart: async () => {
      await server.kill()
      server = await start()
    },
    signal,
  }

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

  test('the server computes the same as the policy imported from its file', async () => {
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

  test('the server reports how many prompt tokens were cached', async () => {
    await chatClientOf(chat).reply(chatRequest({ maxTokens: 5 }), signal)
    const { answer } = await chatClientOf(chat).reply(chatRequest({ maxTokens: 5 }), signal)
    assert.ok((answer.usage?.cachedTokens ?? 0) > 0, JSON.stringify(answer.usage))
  })

  describeChat(chat)

  test('the replies of a whole evaluation are played, counted and graded', { skip: needsStack }, async () => {
    await playChatEvaluation(chat)
  })

  function start(): Promise<LiveEngine> {
    assert.ok('python' in found)
    return startLlamaCpp({
      python: found.python,
      model: join(root, 'model.gguf'),
      name: NAME,
      keys: [KEY, stackKey(KEY)],
      port,
      slots: 4,
      context: CONTEXT,
      log: join(root, 'llama-cpp.log'),
    })
  }

  /** Requests that it works on, by its own account. */
  async function running(): Promise<number> {
    const answer = await fetch(`${server.url}/slots`, { headers: { authorization: `Bearer ${KEY}` }, signal })
    const slots = (await answer.json()) as { is_processing: boolean }[]
    return slots.filter((slot) => slot.is_processing).length
  }
})
