/**
 * `.env.example` names every variable that a person sets: each name that the code reads is in it or below, with why a person does not
 * set it, and each name in it is read by our code or by the package that reads it for us.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { metricsOptions } from '../../workers/metrics.ts'
import { readWorkerEnvironment } from '../../workers/worker-environment.ts'
import { misspeltVariables } from './misspelt-variables.ts'
import { ENVIRONMENT, environmentExample } from './environment-example.ts'

const root = join(import.meta.dirname, '../../..')

/** Read, and set by no person who works with Longhaul. */
const NOT_SET_BY_PEOPLE: Readonly<Record<string, string>> = {
  LONGHAUL_TEMPORAL_ADDRESS: 'longhaul up gives it to its processes; a person has TEMPORAL_ADDRESS',
  LONGHAUL_NAMESPACE: 'the same of TEMPORAL_NAMESPACE',
  LONGHAUL_BUNDLE: 'longhaul up gives it to its workers',
  LONGHAUL_LAUNCHER_HANDLE: 'a launcher gives it to its job',
  LONGHAUL_TRAINER_STRIKE: 'tests end a training step with it',
  TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: 'refused',
  OPENAI_CUSTOM_HEADERS: 'refused',
  RANK: 'torchrun gives it to its processes',
  LOCAL_RANK: 'the same',
  WORLD_SIZE: 'the same',
  PYTHONPATH: 'Python’s own; the trainer’s package is put before it',
  TRACEPARENT: 'a launcher gives it to its job',
  OMP_WAIT_POLICY: 'of the number libraries; set for the trainer',
}
/** Of the system, of CI systems and of other tools, which document them. */
const OF_OTHERS =
  /^(?:PATH|HOME|TERM|CI|XDG_\w+|GITHUB_\w+|CI_\w+|GITLAB_\w+|NETRC|PIP_\w+|UV_\w+|PYENV_ROOT|CONDA_\w+|NODE_\w+|HTTPS?_PROXY|NO_PROXY|HF_HUB_\w+|OTEL_\w+|KUBECONFIG|KUBERNETES_SERVICE_\w+)$/
/** Read for us, below node_modules. */
const READ_BY_PACKAGES: Readonly<Record<string, string>> = {
  TEMPORAL_API_KEY: '@temporalio/envconfig/lib',
  TEMPORAL_TLS: '@temporalio/envconfig/lib',
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: '@temporalio/envconfig/lib',
  TEMPORAL_TLS_SERVER_NAME: '@temporalio/envconfig/lib',
  TEMPORAL_TLS_CLIENT_CERT_PATH: '@temporalio/envconfig/lib',
  TEMPORAL_TLS_CLIENT_KEY_PATH: '@temporalio/envconfig/lib',
  OTEL_EXPORTER_OTLP_HEADERS: '@opentelemetry/otlp-exporter-base/build/src',
  AWS_ACCESS_KEY_ID: '@aws-sdk/credential-provider-env',
  AWS_SECRET_ACCESS_KEY: '@aws-sdk/credential-provider-env',
}
/** Names that recipes and files of schedules suggest; the reader takes any name. */
const SUGGESTED = new Set(['LONGHAUL_ALARM_URL', 'LONGHAUL_ALARM_SECRET', 'HF_TOKEN'])

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(
      (entry) => entry.isFile() && /\.(?:[tj]s|mjs|cjs|py)$/.test(entry.name) && !/\.test\.|\.d\.ts$/.test(entry.name),
    )
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !/(?:environment-example|misspelt-variables)\.ts$/.test(file))
    .map((file) => readFileSync(file, 'utf8'))
}

/** Names in look-ups of an environment, and any name of ours or of Temporal that stands in quotes. */
function namesRead(text: string): string[] {
  return [
    ...text.matchAll(/\benv(?:iron|ironment)?(?:\.get\(["']|\[['"]|\.)([A-Z][A-Z0-9_]+)\b/g),
    ...text.matchAll(/['"]((?:LONGHAUL|TEMPORAL)_[A-Z0-9_]+)['"]/g),
  ].map(([, name = '']) => name)
}

const listed = ENVIRONMENT.flatMap(({ variables }) => variables)
const names = new Set(listed.map(({ name }) => name))
const code = [
  ...sources(join(root, 'src')),
  ...sources(join(root, 'bin')),
  ...sources(join(root, 'trainer/longhaul_trainer')),
]
const read = new Set(code.flatMap(namesRead))

test('every variable that the code reads is in .env.example, or has a reason why a person does not set it', () => {
  assert.ok(read.size > 40, `found hardly any variable: ${[...read].join()}`)
  const missing = [...read].filter(
    (name) => !names.has(name) && !Object.hasOwn(NOT_SET_BY_PEOPLE, name) && !OF_OTHERS.test(name),
  )
  assert.deepEqual(missing.toSorted(), [])
  assert.deepEqual(
    Object.keys(NOT_SET_BY_PEOPLE).filter((name) => !read.has(name)),
    [],
    'a reason for a name that no code reads',
  )
})

test('no variable that the code reads is taken for a misspelt one', () => {
  const ours = [...read].filter((name) => /^(?:LONGHAUL|TEMPORAL)_/.test(name))
  assert.deepEqual(misspeltVariables(Object.fromEntries(ours.map((name) => [name, 'x']))), [])
})

test('a variable that code begins to read is missed, also through a variable that holds its name', () => {
  assert.deepEqual(namesRead("process.env['LONGHAUL_NEW_THING'] ?? env.OTHER_THING"), [
    'LONGHAUL_NEW_THING',
    'OTHER_THING',
    'LONGHAUL_NEW_THING',
  ])
  assert.deepEqual(namesRead("const VARIABLE = 'LONGHAUL_HIDDEN'"), ['LONGHAUL_HIDDEN'])
  assert.deepEqual(namesRead('os.environ.get("LONGHAUL_PY")'), ['LONGHAUL_PY', 'LONGHAUL_PY'])
})

test('every variable in .env.example is read, by us or by the package that reads it for us, and is said once', () => {
  const unread = [...names].filter((name) => {
    const reader = READ_BY_PACKAGES[name]
    if (reader !== undefined) return !sources(join(root, 'node_modules', reader)).some((text) => text.includes(name))
    // The reader of a CI job and of a bucket look names up by a word in quotes.
    return !read.has(name) && !SUGGESTED.has(name) && !code.some((text) => text.includes(`'${name}'`))
  })
  assert.deepEqual(unread, [])
  assert.equal(listed.length, names.size)
  for (const { name, says } of listed) assert.ok(says !== '' && !says.includes('\n'), name)
})

test('a shell that reads the file as it is gets nothing, and with every line uncommented exactly the examples', () => {
  const set = (text: string): Record<string, string> => {
    const out = execFileSync('sh', ['-c', 'set -a; eval "$TEXT"; unset TEXT; env -0'], {
      env: { TEXT: text, PATH: process.env['PATH'] ?? '' },
      encoding: 'utf8',
    })
    return Object.fromEntries(
      out
        .split('\0')
        .flatMap((line): [string, string][] => {
          const at = line.indexOf('=')
          return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)]]
        })
        .filter(([name]) => names.has(name)),
    )
  }
  const text = environmentExample()
  assert.deepEqual(set(text), {})
  const uncommented = text.replaceAll(/^# ([A-Z][A-Z0-9_]*=)/gm, '$1')
  const expected = Object.fromEntries(listed.map(({ name, example }) => [name, example]))
  assert.deepEqual(set(uncommented), expected)

  // Values are of the kind that their readers take; files that are not on this machine apart.
  const worker: Record<string, string> = {}
  for (const [name, value] of Object.entries(expected))
    if (name.startsWith('LONGHAUL_') && value !== '') worker[name] = value
  const environment = readWorkerEnvironment(worker)
  assert.deepEqual([environment.leaseMs, environment.sandboxMemoryMiB], [600_000, 64 * 1024])
  const { LONGHAUL_METRICS_OTLP: _, ...scraped } = worker
  assert.notEqual(metricsOptions(scraped), undefined)
})
