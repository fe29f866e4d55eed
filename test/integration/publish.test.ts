/** `longhaul publish` as a user runs it, against a hub that is written to by the real client. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { useEnvironment } from '../support/environment.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { openArtifactStore } from '../../src/adapters/artifacts/open-store.ts'
import { findS3Server, startS3Server } from '../support/artifacts/s3-server.ts'
import { type Answer, longhaul, useOwnStore } from '../support/command-line.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import { makeEvaluation } from '../support/evaluation-records.ts'
import { startWritableHub, type WritableHub } from '../support/datasets/writable-hub.ts'
import { freePort } from '../support/loopback.ts'
import {
  HOSTILE,
  PRIVATE_HOST,
  storeAdapted,
  storePublishable,
  writeModelFiles,
} from '../support/publish/published-run.ts'
import { runPython, withoutPython } from '../support/python.ts'

const server = await findS3Server()

const TOKEN = 'hf_of_the_test'
const NAME = 'team/repair'

interface Published {
  changed: boolean
  created: boolean
  commit: string
  written: string[]
  removed: string[]
  card?: string
}

let own: Awaited<ReturnType<typeof useOwnStore>>
let policy: PolicyRef
before(async () => {
  own = await useOwnStore()
  process.env['TEST_HUB_TOKEN'] = TOKEN
  await writeModelFiles(join(own.root, 'model'))
  policy = (await storePublishable({ store: own.store, model: join(own.root, 'model'), run: 'run-a' })).policy
})
after(() => own.close())

const startHub = (partBytes?: number): Promise<WritableHub> =>
  startWritableHub({
    tokens: { [TOKEN]: 'write', hf_reader: 'read' },
    ...(partBytes === undefined ? {} : { partBytes }),
  })

function publish(hub: { url: string }, asked: string, ...more: string[]): Promise<Answer> {
  return longhaul('publish', asked, '--to', NAME, '--hub-url', hub.url, '--token-variable', 'TEST_HUB_TOKEN', ...more)
}

async function published(hub: { url: string }, asked: string, ...more: string[]): Promise<Published> {
  const { exitCode, stdout, stderr } = await publish(hub, asked, '--json', ...more)
  assert.equal(exitCode, 0, stderr)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Published
}

/** @param code 2 where the fault may pass by itself, or lies in what is stored */
async function refused(answer: Promise<Answer>, message: RegExp, code: 1 | 2 = 1): Promise<void> {
  const { exitCode, stdout, stderr } = await answer
  assert.match(stderr, message)
  assert.equal(exitCode, code, stderr)
  assert.equal(stderr.match(/^error /gm)?.length, 1, stderr)
  assert.ok(!`${stdout}${stderr}`.includes(TOKEN) && !/signature|127\.0\.0\.1:\d+\/[0-9a-f]{64}/.test(stderr), stderr)
}

/** Commits beside the first one of the hub itself. */
const commitsOf = (hub: WritableHub, branch = 'main'): string[] =>
  hub
    .commits(NAME, branch)
    .slice(1)
    .map(({ title }) => title)

test('publishing a policy makes one commit, repeating it makes none, and nothing of this machine is uploaded', async () => {
  await using hub = await startHub()
  const first = await published(hub, policy.version)
  assert.deepEqual([first.changed, first.created, first.removed], [true, true, []])
  assert.deepEqual(commitsOf(hub), [`Publish ${policy.version}`])
  const files = hub.commits(NAME).at(-1)?.files ?? new Map<string, never>()
  assert.deepEqual(
    [...files.keys()].toSorted(),
    [
      '.gitattributes',
      'README.md',
      'config.json',
      'longhaul.json',
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
      'model.safetensors.index.json',
      'tokenizer.json',
    ].toSorted(),
  )
  const directory = fileURLToPath(policy.uri)
  for (const path of ['config.json', 'tokenizer.json', 'model-00001-of-00002.safetensors']) {
    assert.ok(files.get(path)?.bytes.equals(await readFile(join(directory, path))), path)
  }
  const all = Buffer.concat([...files.values()].map(({ bytes }) => bytes)).toString('latin1')
  for (const secret of [own.root, PRIVATE_HOST, '/data/private', '/home/someone', TOKEN]) {
    assert.ok(!all.includes(secret), secret)
  }
  assert.ok(hub.requests.some(({ isStorage }) => isStorage))
  for (const { isStorage, token, line } of hub.requests) {
    assert.equal(token, isStorage ? null : `Bearer ${TOKEN}`, line)
  }
  const again = await published(hub, policy.version)
  assert.deepEqual([again.changed, again.commit, again.written], [false, first.commit, []])
  assert.deepEqual(commitsOf(hub), [`Publish ${policy.version}`])
})

test('a new score of a published policy commits only the card', async () => {
  await using hub = await startHub()
  const { store } = own
  const version = 'v000033-1a2b3c4d'
  await storePublishable({ store, model: join(own.root, 'model'), run: 'run-scored', version })
  await published(hub, version)
  const evaluation = makeEvaluation({ run: 'later', policy: version, tasks: [{ taskId: 'a', attempts: [1, 0] }] })
  await store.putRecord(runKeys.evaluation('later', 'nightly'), evaluation)
  assert.deepEqual((await published(hub, version)).written, ['README.md'])
  assert.equal(commitsOf(hub).length, 2)
})

test('a dry run prints files and card and creates nothing', async () => {
  await using hub = await startHub()
  const { changed, created, card, written } = await published(hub, policy.version, '--dry-run')
  assert.deepEqual([changed, created, written.length, hub.repositories.size], [true, true, 7, 0])
  assert.match(card ?? '', /^---\nlicense: "unknown"\n/)
  assert.ok(hub.requests.every(({ line }) => line.startsWith('GET ')))
})

test('large files are uploaded in parts, and the same command repeats an interrupted upload', async () => {
  await using hub = await startHub(30_000)
  hub.cuts = 2
  assert.equal((await published(hub, policy.version)).changed, true)
  const file = hub.commits(NAME).at(-1)?.files.get('model-00002-of-00002.safetensors')
  assert.ok(file?.bytes.equals(await readFile(join(fileURLToPath(policy.uri), 'model-00002-of-00002.safetensors'))))
})

test('an upload that gives up makes no commit, and the next command sends only the missing parts', async () => {
  await using hub = await startHub()
  // One of the two files arrives; the other is cut in each of its attempts.
  const puts = (): string[] => hub.requests.filter(({ isStorage }) => isStorage).map(({ line }) => line)
  hub.cuts = 5
  await refused(publish(hub, policy.version), /Nothing was committed; publish again/, 2)
  assert.deepEqual(commitsOf(hub), [])
  const [cut = '', ...others] = new Set(puts())
  assert.equal(others.length, 1)
  const before = puts().length
  hub.cuts = 0
  assert.equal((await published(hub, policy.version)).changed, true)
  assert.equal(commitsOf(hub).length, 1)
  assert.deepEqual([...new Set(puts().slice(before))], [cut])
  const third = await published(hub, policy.version)
  assert.equal(third.changed, false)
})

test('finds a commit whose answer was lost', async () => {
  await using hub = await startHub()
  hub.lostAnswers = 1
  const { changed, commit } = await published(hub, policy.version)
  assert.deepEqual([changed, commit], [true, hub.commits(NAME).at(-1)?.sha])
  assert.equal(commitsOf(hub).length, 1)
})

describe('refused with one error and without a commit', () => {
  test('a wrong token, a token without write access, no token', async (t) => {
    await using hub = await startHub()
    useEnvironment(t, { TEST_OTHER: 'hf_wrong' })
    const other = ['--token-variable', 'TEST_OTHER']
    await refused(publish(hub, policy.version, ...other), /refuses the token in TEST_OTHER: put one that is valid/)
    process.env['TEST_OTHER'] = 'hf_reader'
    await refused(publish(hub, policy.version, ...other), /does not let this token write to team\/repair/)
    process.env['TEST_OTHER'] = ''
    await refused(publish(hub, policy.version, ...other), /Expected a token that may write .* in TEST_OTHER/)
    assert.equal(hub.repositories.size, 0)
  })

  test('an unreachable hub', async () => {
    await refused(
      publish({ url: `http://127.0.0.1:${await freePort()}` }, policy.version),
      /to take the model, got ECONNREFUSED.*publish again/,
      2,
    )
  })

  test('a repository with another policy or from another program, unless --replace is given', async () => {
    await using hub = await startHub()
    hub.put(NAME, { 'config.json': '{}', 'pytorch_model.bin': 'x', LICENSE: 'mine' })
    await refused(publish(hub, policy.version), /holds a model that was not published by this command.*--replace/)
    const { removed } = await published(hub, policy.version, '--replace')
    assert.deepEqual(removed, [])
    assert.ok(hub.commits(NAME).at(-1)?.files.has('LICENSE'))
    const small = join(own.root, 'small')
    await writeModelFiles(small, { config: { hidden_size: 4 } })
    const base = await importBasePolicy({ store: own.store, directory: small })
    await refused(publish(hub, base.version), new RegExp(`holds "${policy.version}": name another repository`))
    assert.equal((await published(hub, base.version, '--replace')).changed, true)
    assert.equal((await published(hub, policy.version, '--revision', 'best')).changed, true)
    assert.deepEqual(commitsOf(hub, 'best'), [`Publish ${policy.version}`])
    assert.ok(!hub.commits(NAME, 'best').at(-1)?.files.has('LICENSE'))
  })

  test('--private for a public repository, while a created one is private', async () => {
    await using hub = await startHub()
    await published(hub, policy.version, '--private')
    assert.equal(hub.repositories.get(NAME)?.isPrivate, true)
    await using open = await startHub()
    open.put(NAME, {})
    await refused(publish(open, policy.version, '--private'), /Expected team\/repair to be private.* it is public/)
  })

  test('a concurrent commit, and a storage that changes a byte', async () => {
    await using hub = await startHub()
    hub.put(NAME, {})
    hub.raceWith = () => hub.put(NAME, { 'other.txt': 'x' })
    await refused(publish(hub, policy.version), /got another commit meanwhile: publish again/, 2)
    await using wrong = await startHub()
    wrong.tampers = true
    await refused(
      publish(wrong, policy.version),
      /Expected the hub to hold model-0000\d-of-00002\.safetensors as it was sent/,
      2,
    )
  })

  test('changed weights, manifest or record', async () => {
    await using hub = await startHub()
    const version = 'v000099-1a2b3c4d'
    const model = join(own.root, 'model')
    const made = await storePublishable({ store: own.store, model, run: 'run-tampered', version })
    const file = join(fileURLToPath(made.policy.uri), 'model-00001-of-00002.safetensors')
    const bytes = await readFile(file)
    bytes[bytes.length - 1] = 1
    await writeFile(file, bytes)
    await refused(
      publish(hub, version),
      /model-00001|Expected the policy to have a hash of [0-9a-f]{64}, as its manifest says/,
      2,
    )
    await writeFile(join(fileURLToPath(made.policy.uri), 'COMMITTED'), 'x')
    await refused(publish(hub, version), /Expected the policy’s sealed directory/, 2)
    assert.deepEqual(hub.requests, [])
  })

  test('a machine path or a token in a text of the model, while the source path is left out', async () => {
    await using hub = await startHub()
    const bases = async (name: string, made: Parameters<typeof writeModelFiles>[1]): Promise<string> => {
      await writeModelFiles(join(own.root, name), made)
      return (await importBasePolicy({ store: own.store, directory: join(own.root, name) })).version
    }
    const cache = await bases('cache', { config: { rope: { file: '/data/private/table' } } })
    await refused(publish(hub, cache), /Expected no path of a machine in config\.json, found one in rope\.file/)
    const metadata = await bases('metadata', { metadata: { by: '/home/me/train.py' } })
    await refused(
      publish(hub, metadata),
      /Expected no path of a machine in model-00001-of-00002\.safetensors, found one in by/,
    )
    const token = await bases('token', { config: { note: `hf_${'a'.repeat(34)}` } })
    await refused(publish(hub, token), /Expected no token in config\.json/)
    const origin = await bases('origin', { config: { _name_or_path: '/data/private/model' } })
    await published(hub, origin)
    assert.ok(!hub.commits(NAME).at(-1)?.files.get('config.json')?.bytes.includes('private'))
  })

  test('unknown policy, name, branch or licence', async () => {
    await using hub = await startHub()
    await refused(publish(hub, 'promoted'), /No policy has been promoted yet/)
    await refused(publish(hub, 'v000001-00000000'), /Expected promoted or the version of a policy .* its newest are v/)
    const strange = await publish(hub, '../x')
    assert.match(strange.stderr, /^error: .*Expected promoted or the version of a policy, got "\.\.\/x"/m)
    assert.equal(strange.exitCode, 1)
    await refused(longhaul('publish', policy.version, '--to', 'alone'), /Expected --to to be OWNER\/NAME/)
    await refused(
      publish(hub, policy.version, '--revision', 'a'.repeat(40)),
      /Expected --revision to be the name of a branch/,
    )
    await refused(publish(hub, policy.version, '--license', 'My Own'), /Expected --license to be a word of the hub/)
    assert.deepEqual(hub.requests, [])
  })
})

describe('a policy in a bucket', { skip: 'reason' in server ? server.reason : false }, () => {
  test('downloads its weights and checks them like those of a directory', async (t) => {
    if ('reason' in server) return
    const s3 = await startS3Server(server.program)
    const location = `s3://${s3.bucket}/published`
    const weights = { directory: join(own.root, 'weights'), isShared: true, limitBytes: 2 ** 40 }
    useEnvironment(t, s3.environment)
    try {
      const store = await openArtifactStore({ location, check: false, weights })
      const made = await storePublishable({ store, model: join(own.root, 'model'), run: 'run-bucket' })
      assert.match(made.policy.uri, /^s3:/)
      Object.assign(process.env, { LONGHAUL_ARTIFACTS: location, LONGHAUL_WEIGHTS: join(own.root, 'elsewhere') })
      await using hub = await startHub()
      await published(hub, made.policy.version)
      const card = hub.commits(NAME).at(-1)?.files.get('README.md')?.bytes.toString() ?? ''
      assert.match(card, /\| run \| run-bucket \|/)
      assert.equal((await published(hub, made.policy.version)).changed, false)
    } finally {
      await s3.close()
    }
  })
})

interface Metric {
  type: string
  name: string
  value: number
  args: { tasks: number; attempts_per_task: number; interval_95: [number, number] }
}

async function cardOf(
  version: string,
  ...more: string[]
): Promise<{ header: Record<string, unknown>; body: string; text: string }> {
  await using hub = await startHub()
  const { card: text = '' } = await published(hub, version, '--dry-run', ...more)
  const [, front = '', body = ''] = /^---\n([\s\S]*?\n)---\n([\s\S]*)$/.exec(text) ?? []
  return { header: parse(front) as Record<string, unknown>, body, text }
}

test('the card states recipe, training, scores with intervals, data, licences and how to serve it', async () => {
  const { header, body } = await cardOf(policy.version, '--license', 'apache-2.0')
  assert.deepEqual(
    [header['license'], header['pipeline_tag'], header['library_name'], header['datasets']],
    ['apache-2.0', 'text-generation', 'transformers', ['nebius/SWE-rebench']],
  )
  const [{ results }] = header['model-index'] as [{ results: { metrics: Metric[]; dataset: object }[] }]
  const [official, audited] = results[0]?.metrics ?? []
  // Three tasks with 1 of 2, 2 of 2 and 0 of 2 attempts resolved.
  assert.deepEqual([official?.value, official?.args.tasks, official?.args.attempts_per_task], [0.5, 3, 2])
  assert.deepEqual([official?.name, audited?.name], ['pass@1, official', 'pass@1, audited'])
  assert.equal(official?.args.interval_95.length, 2)
  for (const said of [
    'v000042-1a2b3c4d',
    policy.manifestSha256,
    'cd'.repeat(32),
    '| rft | 1 | 14 |',
    '| dapo-1 | 2 | 28 |',
    'unknown (2 tasks), plain (1 task)',
    'vllm serve repair --served-model-name v000042-1a2b3c4d',
    '--max-model-len 256',
    'Licence of the base model: unknown',
    'tiny, not recorded where it comes from',
  ]) {
    assert.ok(body.includes(said), `${said} in ${body}`)
  }
})

test('hostile names and texts of records add no markup, YAML or line to the card', async () => {
  const model = join(own.root, 'model')
  const version = 'v000077-1a2b3c4d'
  await storePublishable({ store: own.store, model, run: 'run-hostile', text: HOSTILE, version })
  const { header, body, text } = await cardOf(version)
  assert.equal(header['license'], 'unknown')
  assert.deepEqual(header['tags'], ['longhaul', 'software-engineering', 'agent', 'reinforcement-learning'])
  assert.ok(!/<img|\]\(|@team|\u202e|[\ud800-\udfff]/u.test(body))
  assert.equal(text.match(/^---$/gm)?.length, 2)
  const widths = body.split('\n').filter((line) => line.startsWith('| '))
  assert.ok(widths.every((line) => line.endsWith(' |')))
})

describe('with the trainer’s Python', { skip: withoutPython }, () => {
  test('a published policy is imported with equal hashes, and huggingface_hub reads its card', async () => {
    const source = join(own.root, 'source')
    await runPython(
      'import sys, pathlib; from import_sources import Made, make_directory;' +
        'make_directory(pathlib.Path(sys.argv[1]), Made(family="qwen3", tied=True))',
      source,
    )
    const imported = join(own.root, 'imported')
    assert.equal((await longhaul('models', 'import', source, '--output', imported)).exitCode, 0)
    const version = 'v000055-1a2b3c4d'
    const made = await storePublishable({ store: own.store, model: imported, run: 'run-real', version })
    await using hub = await startHub(50_000)
    const { commit } = await published(hub, version)
    const again = join(own.root, 'again')
    const { exitCode, stderr } = await longhaul(
      'models',
      'import',
      NAME,
      '--revision',
      commit,
      '--hub-url',
      hub.url,
      '--token-variable',
      'TEST_HUB_TOKEN',
      '--output',
      again,
    )
    assert.equal(exitCode, 0, stderr)
    const hashesOf = async (directory: string): Promise<Map<string, string>> => {
      const { files } = JSON.parse(await readFile(join(directory, 'MANIFEST.json'), 'utf8')) as {
        files: { path: string; sha256: string }[]
      }
      return new Map(files.map(({ path, sha256 }) => [path, sha256]))
    }
    const [ours, theirs] = [await hashesOf(fileURLToPath(made.policy.uri)), await hashesOf(again)]
    for (const path of ['config.json', 'tokenizer.json', 'model.safetensors', 'model.safetensors.index.json']) {
      assert.equal(theirs.get(path), ours.get(path), path)
      assert.ok(ours.has(path), path)
    }
    const card = hub.commits(NAME).at(-1)?.files.get('README.md')?.bytes.toString() ?? ''
    const read = JSON.parse(
      await runPython(
        'import json, sys; from huggingface_hub import ModelCard; data = ModelCard(sys.argv[1]).data;' +
          'print(json.dumps([[r.metric_type, r.metric_name, r.metric_value, r.metric_args["tasks"]] for r in data.eval_results] + [data.pipeline_tag]))',
        card,
      ),
    ) as unknown
    assert.deepEqual(read, [
      ['pass@1', 'pass@1, official', 0.5, 3],
      ['pass@1', 'pass@1, audited', 0.5, 3],
      'text-generation',
    ])
  })

  test('adapters are published alone in PEFT’s layout and replace whole weights only on request', async () => {
    const { store } = own
    const made = await storeAdapted({ store, root: own.root, origin: `team/tiny@${'1'.repeat(40)}` })
    await using hub = await startHub()
    await published(hub, made.version, '--adapter')
    const files = hub.commits(NAME).at(-1)?.files ?? new Map<string, never>()
    assert.deepEqual(
      [...files.keys()].toSorted(),
      ['.gitattributes', 'README.md', 'adapter_config.json', 'adapter_model.safetensors', 'longhaul.json'].toSorted(),
    )
    const config = JSON.parse(files.get('adapter_config.json')?.bytes.toString() ?? '') as Record<string, unknown>
    assert.deepEqual(
      [config['base_model_name_or_path'], config['revision'], config['r']],
      ['team/tiny', '1'.repeat(40), 4],
    )
    const card = files.get('README.md')?.bytes.toString() ?? ''
    const [, front = ''] = /^---\n([\s\S]*?\n)---\n/.exec(card) ?? []
    const header = parse(front) as Record<string, unknown>
    assert.deepEqual(
      [header['library_name'], header['base_model'], header['base_model_relation']],
      ['peft', 'team/tiny', 'adapter'],
    )
    assert.match(card, /PeftModel\.from_pretrained\(base, "team\/repair"/)
    assert.equal((await published(hub, made.version, '--adapter')).changed, false)
    await refused(publish(hub, made.version), /holds adapters of "v000001-[0-9a-f]{8}": name another/)
    assert.equal(commitsOf(hub).length, 1)
    const { removed } = await published(hub, made.version, '--replace')
    assert.deepEqual(removed.toSorted(), ['adapter_config.json', 'adapter_model.safetensors'])
  })
})

test('--adapter refuses a policy without adapters before it contacts the hub', async () => {
  await using hub = await startHub()
  await refused(publish(hub, policy.version, '--adapter'), /its recipe trained all weights .*Publish the whole policy/)
  assert.deepEqual(hub.requests, [])
})
