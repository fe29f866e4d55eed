/**
 * vLLM's own chat route behind the chat adapter, and a whole evaluation through it. The engine writes the prompt with the chat template
 * of an imported model. The model is tiny and random: what is proven is the way to the engine.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { HANG_MS } from '../support/hang.ts'
import { type ChatServer, chatClientOf, chatRequest, describeChat } from '../support/live-engine/chat-behaviour.ts'
import { playChatEvaluation, stackKey } from '../support/live-engine/chat-evaluation.ts'
import type { LiveEngine } from '../support/live-engine/engine-process.ts'
import { countRunning, findVllm, startVllm } from '../support/live-engine/vllm.ts'
import { freePort } from '../support/loopback.ts'
import { needsStack } from '../support/pipeline-world.ts'
import { runPython, withoutPython } from '../support/python.ts'

const found = withoutPython === false ? await findVllm() : { skip: withoutPython }
const NAME = 'tiny'
const KEY = 'a-key-of-the-test'
const CONTEXT = 8_192

/** Heads of 32 are the smallest that vLLM attends with on a processor. */
const MAKE = `
import pathlib, sys, torch
from import_sources import Made, make_directory
from longhaul_trainer.importer.command import ImportOptions, run_import
root = pathlib.Path(sys.argv[1])
made = Made(family='llama', rope='llama3', chat='llama3', dtype=torch.float32, hidden=128, head_dim=32)
run_import(ImportOptions(make_directory(root / 'model', made), root / 'policy'))
`

describe('the chat route of a running vLLM', { skip: 'skip' in found ? found.skip : false }, () => {
  let root: string
  let port: number
  let engine: LiveEngine
  const chat: ChatServer = {
    url: () => engine.url,
    model: NAME,
    apiKey: KEY,
    context: CONTEXT,
    // Of the generation config below; every request names its temperature.
    ownFilters: { topK: 20 },
    running: () => countRunning(engine),
    restart: async () => {
      await engine.kill()
      engine = await start()
    },
    signal: AbortSignal.timeout(3 * HANG_MS),
  }

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-vllm-chat-'))
    port = await freePort()
    await runPython(MAKE, root)
    engine = await start()
  })
  after(async () => {
    await engine?.kill()
    await rm(root, { recursive: true, force: true })
  })

  test('a model name that the server does not list fails as Model.NotServed', async () => {
    const asked = chatClientOf(chat, { model: 'another' }).reply(chatRequest(), chat.signal)
    await assert.rejects(asked, { code: 'Model.NotServed' })
  })

  describeChat(chat)

  test('the replies of a whole evaluation are played, counted and graded', { skip: needsStack }, async () => {
    await playChatEvaluation(chat)
  })

  function start(): Promise<LiveEngine> {
    assert.ok('bin' in found)
    return startVllm({
      bin: found.bin,
      directory: join(root, 'policy'),
      name: NAME,
      port,
      publish: 'restart',
      context: CONTEXT,
      log: join(root, 'vllm.log'),
      more: [
        // A vLLM for processors ends where a request with a seed has its prompt read in pieces: their generators cannot be set back.
        '--no-enable-chunked-prefill',
        '--max-num-batched-tokens',
        String(CONTEXT),
        // As without Longhaul's command: the model's own top-k and temperature hold where a request names none.
        '--generation-config',
        join(root, 'model'),
        '--api-key',
        KEY,
        stackKey(KEY),
      ],
    })
  }
})
