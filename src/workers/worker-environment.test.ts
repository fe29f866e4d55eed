import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPolicyClient } from '../adapters/policy-server/client.ts'
import { readWorkerEnvironment } from './worker-environment.ts'

const REQUIRED = {
  LONGHAUL_ARTIFACTS: '/a',
  LONGHAUL_POLICY_URL: 'http://127.0.0.1:1',
  LONGHAUL_CACHE: '/c',
  LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:7233',
}

test('the viewer’s address gets a final slash, and an address with more than host and path is refused', () => {
  const read = (url: string) => readWorkerEnvironment({ ...REQUIRED, LONGHAUL_VIEWER_URL: url }).viewerUrl
  assert.deepEqual(
    [read(''), read('http://127.0.0.1:8433'), read('https://host/runs'), read('https://host/runs/')],
    [null, 'http://127.0.0.1:8433/', 'https://host/runs/', 'https://host/runs/'],
  )
  for (const url of ['viewer', 'javascript:alert(1)', 'http://h/?q', 'http://h/#x', 'http://u:p@h/']) {
    assert.throws(() => read(url), /Expected LONGHAUL_VIEWER_URL to be an address/, url)
  }
})

test('a worker whose recipes launch their engines needs no policy server', () => {
  const { LONGHAUL_POLICY_URL: named, ...others } = REQUIRED
  assert.equal(readWorkerEnvironment(others).policyUrl, '')
  assert.equal(readWorkerEnvironment(REQUIRED).policyUrl, named)
  // A recipe that names none and launches none gets to know it here.
  assert.throws(() => createPolicyClient({ kind: 'embedded', url: '' }), {
    code: 'Config.Invalid',
    message: /policyServer.url \(or LONGHAUL_POLICY_URL\)/,
  })
})

test('a build needs a name that can be typed and joined to others, and an empty one counts as none', () => {
  const read = (build: string) => readWorkerEnvironment({ ...REQUIRED, LONGHAUL_BUILD_ID: build }).buildId
  assert.deepEqual([read(''), read('2026-11-23-1a2b3c4'), read('v1.2+x_y')], [null, '2026-11-23-1a2b3c4', 'v1.2+x_y'])
  for (const build of ['a b', 'a:b', 'a/b', 'x'.repeat(101)]) {
    assert.throws(() => read(build), /Expected LONGHAUL_BUILD_ID to be/, build)
  }
})

test('sandboxes are containers by default, pods need a stated capacity, and other values are refused', () => {
  const pods = (env: NodeJS.ProcessEnv) => readWorkerEnvironment({ ...REQUIRED, ...env }).pods
  assert.equal(pods({}), null)
  assert.equal(pods({ LONGHAUL_SANDBOXES: 'containers', LONGHAUL_SANDBOX_CPUS: '4' }), null)
  const asked = { LONGHAUL_SANDBOXES: 'pods', LONGHAUL_SANDBOX_CPUS: '64', LONGHAUL_KUBERNETES_NAMESPACE: 'agents' }
  assert.deepEqual(pods(asked), { namespace: 'agents', seccompProfile: null, cpus: 64, graders: 'containers' })
  assert.equal(pods({ ...asked, LONGHAUL_GRADERS: 'pods' })?.graders, 'pods')
  assert.throws(() => pods({ LONGHAUL_GRADERS: 'pods' }), {
    code: 'Config.Invalid',
    message: /LONGHAUL_SANDBOXES=pods beside LONGHAUL_GRADERS=pods/,
  })
  assert.throws(() => pods({ LONGHAUL_SANDBOXES: 'pods' }), {
    code: 'Config.Invalid',
    message: /LONGHAUL_SANDBOX_CPUS/,
  })
  assert.throws(() => pods({ LONGHAUL_SANDBOXES: 'vms' }), { code: 'Config.Invalid', message: /containers or pods/ })
  assert.throws(() => pods({ ...asked, LONGHAUL_GRADERS: 'pod' }), {
    message: /LONGHAUL_GRADERS to be containers or pods/,
  })
})

test('waits an hour, or the given number of seconds, for a store that is away or full', () => {
  const patience = (value?: string) =>
    readWorkerEnvironment({ ...REQUIRED, LONGHAUL_STORE_PATIENCE_S: value }).storePatienceMs
  assert.equal(patience(), 3_600_000)
  assert.equal(patience('0'), 0)
  assert.equal(patience('90'), 90_000)
  for (const wrong of ['', '-1', '1.5', '1h', 'NaN']) {
    assert.throws(() => patience(wrong), { code: 'Config.Invalid', message: /LONGHAUL_STORE_PATIENCE_S/ }, wrong)
  }
})

test('addresses must be http(s) and a key must fit into a header, and errors name only the variable', () => {
  const read = (env: NodeJS.ProcessEnv) => readWorkerEnvironment({ ...REQUIRED, ...env })
  assert.equal(read({ LONGHAUL_HUB_URL: 'https://hub.example.org' }).hubUrl, 'https://hub.example.org')
  assert.equal(read({ LONGHAUL_POLICY_API_KEY: 'sk-1' }).policyApiKey, 'sk-1')
  for (const [name, wrong] of [
    ['LONGHAUL_POLICY_URL', 'secret-gpu-1:8000'],
    ['LONGHAUL_POLICY_URL', 'secret'],
    ['LONGHAUL_HUB_URL', 'ftp://secret'],
    ['LONGHAUL_POLICY_API_KEY', 'secret\n'],
    ['LONGHAUL_POLICY_API_KEY', 'secret secret'],
  ] as const) {
    assert.throws(
      () => read({ [name]: wrong }),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'Config.Invalid')
        assert.ok(error.message.startsWith(`Expected ${name} to be`), error.message)
        assert.ok(!error.message.includes('secret'), error.message)
        return true
      },
    )
  }
})

test('an empty variable counts as unset', () => {
  const names = [
    'POLICY_URL',
    'POLICY_API_KEY',
    'PYTHON',
    'BUNDLE',
    'ENGINES',
    'HOST_ID',
    'SANDBOX_RUNTIME',
    'HUB_URL',
    'WANDB_PYTHON',
    'RECIPES',
  ]
  const { LONGHAUL_POLICY_URL: _, ...others } = REQUIRED
  const empty = Object.fromEntries(names.map((name) => [`LONGHAUL_${name}`, '']))
  assert.deepEqual(readWorkerEnvironment({ ...others, ...empty }), readWorkerEnvironment(others))
})

test('paths are relative to the directory of the worker, since jobs and engines run elsewhere', () => {
  const read = (env: NodeJS.ProcessEnv) => readWorkerEnvironment({ ...REQUIRED, ...env })
  const { python, enginesDir, cacheDir } = read({
    LONGHAUL_PYTHON: 'venv/bin/python',
    LONGHAUL_ENGINES: 'engines',
    LONGHAUL_CACHE: 'cache',
  })
  const here = process.cwd()
  assert.deepEqual([python, enginesDir, cacheDir], [`${here}/venv/bin/python`, `${here}/engines`, `${here}/cache`])
  assert.equal(read({ LONGHAUL_PYTHON: 'python3.11' }).python, 'python3.11')
})

test('accepts hosts of private networks by name and refuses addresses with a scheme or a path', () => {
  const read = (env: NodeJS.ProcessEnv) => readWorkerEnvironment({ ...REQUIRED, ...env })
  for (const name of ['LONGHAUL_ALARM_HOSTS', 'LONGHAUL_ASSET_HOSTS']) {
    for (const right of ['', 'hooks.internal', ' hooks.internal:8443, [::1]:80 ']) read({ [name]: right })
    for (const wrong of ['http://hooks.internal', 'a,hooks.internal/path', 'a b']) {
      assert.throws(() => read({ [name]: wrong }), { code: 'Config.Invalid', message: new RegExp(name) }, wrong)
    }
  }
})

test('numbers must be decimal and within limits', () => {
  for (const [name, values] of [
    ['LONGHAUL_LEASE_S', [' ', '0x10', '1e999', '99999999999999999999', '2000001']],
    ['LONGHAUL_STORE_PATIENCE_S', [' ', '0x10', '99999999999999999999']],
    ['LONGHAUL_MIN_FREE_GIB', [' ', '0x10', '1e999']],
    ['LONGHAUL_WEIGHTS_GIB', [' ', '0x10', '1e999']],
    ['LONGHAUL_SANDBOX_CPUS', [' ', '0x10', '1e999']],
    ['LONGHAUL_SANDBOX_MEMORY_GIB', ['0x10']],
  ] as const) {
    for (const value of values) {
      const message = new RegExp(`Expected ${name} to be .*, got `)
      assert.throws(
        () => readWorkerEnvironment({ ...REQUIRED, [name]: value }),
        { code: 'Config.Invalid', message },
        name + value,
      )
    }
  }
  assert.equal(readWorkerEnvironment({ ...REQUIRED, LONGHAUL_SANDBOX_CPUS: ' 1.5 ' }).sandboxCpus, 1.5)
})

test('refuses an address that cannot be requested and a namespace that is no path segment', () => {
  for (const name of ['LONGHAUL_POLICY_URL', 'LONGHAUL_HUB_URL']) {
    for (const address of ['http://me:secret@gpu-1:8000', 'http://gpu-1:8000/?key=secret', 'http://gpu-1#secret']) {
      assert.throws(
        () => readWorkerEnvironment({ ...REQUIRED, [name]: address }),
        (error: Error) =>
          error.message.includes(`Expected ${name} to be an address without`) && !/secret/.test(error.message),
      )
    }
  }
  const pods = { ...REQUIRED, LONGHAUL_SANDBOXES: 'pods', LONGHAUL_SANDBOX_CPUS: '4' }
  for (const namespace of ['../x', 'A B', 'a'.repeat(64), '-a']) {
    assert.throws(() => readWorkerEnvironment({ ...pods, LONGHAUL_KUBERNETES_NAMESPACE: namespace }), {
      message: /LONGHAUL_KUBERNETES_NAMESPACE to be at most 63/,
    })
  }
})
