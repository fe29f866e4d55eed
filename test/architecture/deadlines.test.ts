/**
 * No call of the product to the outside is without a deadline. A lint rule cannot see this, so the text is read: each way out
 * has one place that bounds it, and nothing else may use that way.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')

interface Call {
  file: string
  text: string
}

/** Ways out that need a word in the call itself. */
const NEEDS_A_WORD: { callee: RegExp; bound: RegExp; why: string }[] = [
  { callee: /(?<![\w.#])fetch\(/g, bound: /\bsignal\b/, why: 'fetch waits for ever: give it a signal' },
  // Two arguments: what is waited for, and how long.
  { callee: /(?<![\w.#])condition\(/g, bound: /,\s*['"`\d]/, why: 'condition waits for ever: give it a time' },
]

/** Ways out with doors of their own, where every use is bounded. */
const FEW_DOORS: { pattern: RegExp; doors: string[]; why: string }[] = [
  {
    pattern: /from 'node:https?'/,
    // The proxy of sandboxes bounds silence and length of each connection; assets of rows have a minute, receivers of alarms 15 seconds; servers on the loopback and the one of probes bound each request.
    doors: [
      'src/adapters/datasets/fetch-asset.ts',
      'src/adapters/egress/egress-proxy.ts',
      'src/adapters/webhook/post-webhook.ts',
      'src/stack/codec-server.ts',
      'src/viewer/serve.ts',
      'src/workers/health.ts',
    ],
    why: 'bound each exchange',
  },
  {
    pattern: /new Docker\(/,
    doors: ['src/adapters/docker/engine/engine.ts'],
    why: 'bounds each request to the engine',
  },
  {
    pattern: /from '(?:openai|undici)/,
    // A request to a cluster has a deadline, as has the opening of an exec; what is asked over it is bounded by the pool of runners.
    doors: ['src/adapters/kubernetes/cluster.ts', 'src/adapters/policy-server/openai-transport.ts'],
    why: 'end each exchange at its time',
  },
  {
    // Ten seconds an export (two in a command), a queue of 2,048 spans, and a limit on the last flush.
    pattern: /from '@opentelemetry\/exporter/,
    doors: ['src/platform/export-traces.ts'],
    why: 'bounds each export, its queue and its end',
  },
]

/** Who starts programs, and what ends one that hangs. */
const STARTS_PROGRAMS: Record<string, string> = {
  'src/adapters/docker/images/base-image-rootfs.ts': 'a deadline of its own',
  'src/adapters/docker/sandbox/runner-volume.ts': 'a deadline of its own',
  'src/adapters/datasets/parquet-rows.ts': 'SILENCE_MS without a word, and its memory; fetching is bounded by itself',
  'src/adapters/engines/engine-process.ts':
    'an engine: keeper.ts bounds its start and its silence; it dies with the keeper',
  'src/adapters/engines/fleets.ts': 'the keeper: KEEPER_START_MS until its first word, then the lease of its run',
  'src/adapters/kubernetes/cluster-access.ts': 'a deadline of its own',
  'src/adapters/task-images/build-task-image.ts': 'a deadline of its own',
  'src/adapters/trainer-job/launchers/process-launcher.ts':
    'trainer.stallS and trainer.timeoutS, watched by follow-attempt.ts',
  'src/adapters/trainer-job/job/run-tool.ts': 'a deadline of its own',
  'src/adapters/docker/container/written-folder.ts': 'a deadline of its own',
  'src/platform/run-command.ts': 'timeoutMs, which every caller has to give',
  'src/stack/setup/private-engine.ts':
    'a service: START_TIMEOUT_MS until it answers; the time-out of each call that removes its remains',
  'src/stack/supervisor.ts': 'a service: its readiness is watched, its stop has a grace time',
  'src/stack/up.ts': 'the supervisor itself: steps.ts bounds the wait for it',
}

function sources(): { file: string; text: string }[] {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => ({ file: `src/${name}`, text: withoutComments(readFileSync(join(root, 'src', name), 'utf8')) }))
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
}

/** Calls with their arguments, to the bracket that closes them. */
function callsOf(callee: RegExp, { file, text }: { file: string; text: string }): Call[] {
  return [...text.matchAll(callee)].map(({ index, 0: head }) => {
    let depth = 1
    let end = index + head.length
    for (; depth > 0 && end < text.length; end++) {
      if (text[end] === '(') depth++
      if (text[end] === ')') depth--
    }
    return { file, text: text.slice(index, end) }
  })
}

for (const { callee, bound, why } of NEEDS_A_WORD) {
  test(`every call in src has a limit: ${why}`, () => {
    const calls = sources().flatMap((source) => callsOf(callee, source))
    assert.ok(calls.length > 1, 'found no call at all: the search is broken')
    assert.deepEqual(
      calls.filter(({ text }) => !bound.test(text)),
      [],
    )
  })
}

for (const { pattern, doors, why } of FEW_DOORS) {
  test(`such connections are opened only in ${doors.join(' and ')}, which ${why}`, () => {
    const users = sources()
      .filter(({ text }) => pattern.test(text))
      .map(({ file }) => file)
    assert.deepEqual(
      users.toSorted(),
      doors.filter((file) => users.includes(file)),
    )
  })
}

test('programs are started only where a program that hangs is ended', () => {
  const users = sources()
    .filter(
      ({ text }) =>
        /from 'node:child_process'/.test(text) && !/import type [^\n]* from 'node:child_process'/.test(text),
    )
    .map(({ file }) => file)
  assert.deepEqual(users.toSorted(), Object.keys(STARTS_PROGRAMS).toSorted())
})

test('the search finds a call without a deadline, also over several lines', () => {
  const [fetched] = callsOf(/(?<![\w.#])fetch\(/g, { file: 'x', text: 'await fetch(\n  url(a),\n  { method }\n)' })
  assert.ok(fetched !== undefined && !NEEDS_A_WORD[0]?.bound.test(fetched.text))
  const [waited] = callsOf(/(?<![\w.#])condition\(/g, { file: 'x', text: 'await condition(() => f(a, b))' })
  assert.ok(waited !== undefined && !NEEDS_A_WORD[1]?.bound.test(waited.text))
})
