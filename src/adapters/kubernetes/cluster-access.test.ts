import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import { readClusterAccess } from './cluster-access.ts'

let folder: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-kubeconfig-'))
  await writeFile(join(folder, 'client.pem'), 'CERT')
  await writeFile(join(folder, 'client.key'), 'KEY')
  await writeFile(join(folder, 'ca.pem'), 'CA')
})
after(() => rm(folder, { recursive: true }))

async function configOf(user: string, cluster = 'server: https://api.example:6443/', more = ''): Promise<string> {
  const path = join(folder, 'config')
  await writeFile(
    path,
    `current-context: here
contexts:
  - { name: here, context: { cluster: c, user: u${more} } }
clusters:
  - name: c
    cluster: { ${cluster} }
users:
  - name: u
    user: ${user}
`,
  )
  return path
}

test('reads certificates by file, relative to the kubeconfig, and the namespace of the context', async () => {
  const config = await configOf(
    '{ client-certificate: client.pem, client-key: client.key }',
    'server: https://api.example:6443/, certificate-authority: ca.pem',
    ', namespace: sandboxes',
  )
  const access = await readClusterAccess({ KUBECONFIG: config })
  assert.equal(access.server, 'https://api.example:6443')
  assert.deepEqual([access.namespace, access.ca, access.skipsVerification], ['sandboxes', 'CA', false])
  assert.deepEqual(await access.credentials(), { cert: 'CERT', key: 'KEY' })
})

test('prefers KUBECONFIG to the home folder, and the first of several files sets the context', async () => {
  const config = await configOf('{ token: abc }')
  const second = join(folder, 'second')
  await writeFile(second, 'current-context: other\n')
  const access = await readClusterAccess({ KUBECONFIG: `${config}:${second}`, HOME: '/nowhere' })
  assert.deepEqual(await access.credentials(), { token: 'abc' })
  assert.equal(access.namespace, null)
})

test('a credential program is told how to answer and asked again when its credentials expire', async () => {
  const program = join(folder, 'give')
  const count = join(folder, 'count')
  const script = (expires: string): string => `#!/bin/sh
echo x >> ${count}
[ "$NEEDED" = yes ] && echo "$KUBERNETES_EXEC_INFO" | grep -q '"kind":"ExecCredential"' || exit 3
echo '{"kind":"ExecCredential","status":{"token":"'$(wc -l < ${count} | tr -d ' ')'"${expires}}}'
`
  const exec = `{ exec: { apiVersion: client.authentication.k8s.io/v1, command: ./give, env: [{ name: NEEDED, value: "yes" }] } }`
  const config = await configOf(exec)
  await writeFile(program, script(''))
  await chmod(program, 0o700)
  const lasting = await readClusterAccess({ KUBECONFIG: config })
  assert.deepEqual([await lasting.credentials(), await lasting.credentials()], [{ token: '1' }, { token: '1' }])
  await writeFile(program, script(`,"expirationTimestamp":"${new Date(Date.now() + 30_000).toISOString()}"`))
  const short = await readClusterAccess({ KUBECONFIG: config })
  assert.deepEqual([await short.credentials(), await short.credentials()], [{ token: '2' }, { token: '3' }])
})

const WRONG: [what: string, config: () => Promise<string>, says: RegExp][] = [
  ['a file that is not there', async () => '/nowhere/config', /\/nowhere\/config cannot be read/],
  [
    'a context that is not there',
    async () => written('current-context: x\ncontexts:\n  - { name: here, context: { cluster: c, user: u } }\n'),
    /there is no context x, which current-context names; there is here/,
  ],
  ['no context', async () => written('contexts: []\n'), /current-context is not set/],
  [
    'a user that is not there',
    async () =>
      written(
        'current-context: x\ncontexts: [{ name: x, context: { cluster: c, user: u } }]\nclusters: [{ name: c, cluster: { server: "https://a:1" } }]\n',
      ),
    /there is no user u/,
  ],
  [
    'no YAML',
    async () => written('users: [{ name: u, user: { token: "hidden'),
    /is not YAML \(Missing closing [^\n]*at line 1/,
  ],
  ['a server that is no address', async () => configOf('{ token: a }', 'server: nonsense'), /is not the address/],
  ['a proxy', async () => configOf('{ token: a }', 'server: https://a, proxy-url: http://p'), /proxy-url/],
  ['a password', async () => configOf('{ username: a }'), /auth-provider or a password/],
]

async function written(text: string): Promise<string> {
  const path = join(folder, 'wrong')
  await writeFile(path, text)
  return path
}

for (const [what, config, says] of WRONG) {
  test(`${what}: one error says so`, async () => {
    await assert.rejects(readClusterAccess({ KUBECONFIG: await config() }), (error) => {
      assert.ok(isLonghaulError(error))
      assert.equal(error.code, 'Config.Invalid')
      assert.match(error.message, says)
      assert.doesNotMatch(error.message, /hidden|\n/)
      return true
    })
  })
}

test('a token that no header can carry is refused without the token', async () => {
  const { credentials } = await readClusterAccess({ KUBECONFIG: await configOf('{ token: "hidden\\nmore" }') })
  await assert.rejects(
    credentials,
    (error) => isLonghaulError(error) && error.code === 'Config.Invalid' && !error.message.includes('hidden'),
  )
})

test('names a credential program that fails, with how it failed', async () => {
  const config = await configOf('{ exec: { apiVersion: v1, command: /bin/false } }')
  const access = await readClusterAccess({ KUBECONFIG: config })
  await assert.rejects(access.credentials(), { code: 'Config.Invalid', message: /\/bin\/false.*failed/ })
})

test('names a credential program that is not installed, with the hint of the kubeconfig', async () => {
  const hint = 'installHint: "the plug-in comes with the package lab-cli"'
  const config = await configOf(`{ exec: { apiVersion: v1, command: no-such-plug-in, ${hint} } }`)
  const access = await readClusterAccess({ KUBECONFIG: config })
  await assert.rejects(access.credentials(), {
    code: 'Config.Invalid',
    message: /no-such-plug-in, which the kubeconfig names for credentials, is not installed.*the plug-in comes with/s,
  })
})

test('without a kubeconfig or a pod it names what to set', async () => {
  await assert.rejects(readClusterAccess({ HOME: '/nowhere' }), { code: 'Config.Invalid', message: /set KUBECONFIG/ })
})
