import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createAuthority } from '../../test/support/temporal-gate.ts'
import { isLonghaulError } from '../contracts/errors.ts'
import { namedTemporalServer, readTemporalSettings } from './temporal-settings.ts'

const home = mkdtempSync(join(tmpdir(), 'longhaul-profiles-'))
after(() => rmSync(home, { recursive: true, force: true }))

function profiles(name: string, text: string): string {
  const path = join(home, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, text)
  return path
}

const file = profiles(
  'profiles.toml',
  `[profile.default]\naddress = "default:1"\n[profile.cloud]\naddress = "cloud:7233"\nnamespace = "team.acct"\napi_key = "k"\n`,
)

function message(env: NodeJS.ProcessEnv): string {
  try {
    readTemporalSettings(env)
  } catch (error) {
    assert.ok(isLonghaulError(error), String(error))
    assert.equal(error.code, 'Config.Invalid')
    return error.message
  }
  throw new assert.AssertionError({ message: 'Expected a refusal' })
}

test('uses the local server by default', () => {
  const settings = readTemporalSettings({ HOME: join(home, 'empty') })
  assert.deepEqual(settings, { address: '127.0.0.1:7233', namespace: 'default', credentials: {} })
})

test('a variable overrides the profile, the local stack both, and an argument all', () => {
  const env = { TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'cloud' }
  const read = (more: NodeJS.ProcessEnv, override = {}): unknown[] => {
    const { address, namespace, credentials } = readTemporalSettings({ ...env, ...more }, override)
    return [address, namespace, credentials.apiKey]
  }
  assert.deepEqual(read({}), ['cloud:7233', 'team.acct', 'k'])
  assert.deepEqual(read({ TEMPORAL_NAMESPACE: 'other', TEMPORAL_API_KEY: 'l' }), ['cloud:7233', 'other', 'l'])
  assert.deepEqual(read({ LONGHAUL_TEMPORAL_ADDRESS: 'local:1' }), ['local:1', 'default', undefined])
  assert.deepEqual(read({ LONGHAUL_TEMPORAL_ADDRESS: 'cloud:7233' }), ['cloud:7233', 'team.acct', 'k'])
  assert.deepEqual(read({ LONGHAUL_NAMESPACE: 'mine' }), ['cloud:7233', 'mine', 'k'])
  assert.deepEqual(read({}, { address: 'argument:1', namespace: 'n' }), ['argument:1', 'n', undefined])
})

test('an empty variable counts as unset', () => {
  const env = { HOME: join(home, 'empty'), TEMPORAL_ADDRESS: '', TEMPORAL_API_KEY: '', TEMPORAL_TLS: '' }
  assert.deepEqual(readTemporalSettings(env).credentials, {})
})

test('an API key alone turns on TLS, unless TLS is turned off', () => {
  const env = { HOME: join(home, 'empty'), TEMPORAL_ADDRESS: 'a:1', TEMPORAL_API_KEY: 'k' }
  assert.deepEqual(readTemporalSettings(env).credentials, { tls: true, apiKey: 'k' })
  assert.equal(readTemporalSettings({ ...env, TEMPORAL_TLS: 'false' }).credentials.tls, false)
})

test('only a server that the operator named replaces the local stack', () => {
  profiles('config/temporalio/temporal.toml', '[profile.default]\naddress = "cloud:7233"\n')
  const env = { XDG_CONFIG_HOME: join(home, 'config') }
  assert.equal(readTemporalSettings(env).address, 'cloud:7233')
  assert.equal(namedTemporalServer(env), null)
  assert.equal(namedTemporalServer({ ...env, TEMPORAL_PROFILE: 'default' })?.address, 'cloud:7233')
  const own = { LONGHAUL_TEMPORAL_ADDRESS: 'local:1', TEMPORAL_ADDRESS: 'named:1' }
  assert.equal(namedTemporalServer({ ...env, ...own })?.address, 'named:1')
})

test('refuses settings that would be ignored', () => {
  const broken = (text: string): NodeJS.ProcessEnv => ({ TEMPORAL_CONFIG_FILE: profiles('broken.toml', text) })
  assert.match(message({ TEMPORAL_CONFIG_FILE: join(home, 'missing.toml') }), /missing\.toml \(TEMPORAL_CONFIG_FILE\)/)
  assert.match(message({ TEMPORAL_CONFIG_FILE: home }), /Expected a file of profiles at .* \(TEMPORAL_CONFIG_FILE\)/)
  assert.match(message({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'clod' }), /'clod' not found/)
  assert.match(message(broken('[profile.default]\nadress = "a:1"\n')), /adress/)
  assert.match(message(broken('[profile.default\n')), /Invalid TOML/)
  assert.match(message({ TEMPORAL_TLS: 'yes' }), /TEMPORAL_TLS to be true or false, got "yes"/)
  assert.match(message({ TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: 'true' }), /TEMPORAL_TLS_SERVER_CA_CERT_PATH/)
  assert.match(message({ TEMPORAL_TLS_CLIENT_CERT_PATH: file }), /belong together/)
  assert.match(message(broken(`[profile.default.tls]\nclient_key_path = "${file}"\n`)), /belong together/)
  assert.match(message({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(home, 'no.pem') }), /no\.pem/)
})

test('an error in a file of profiles names the file and its line, and never what stands there', () => {
  const said = (text: string): string => message({ TEMPORAL_CONFIG_FILE: profiles('wrong.toml', text) })
  for (const [text, expected] of [
    ['[profile.default]\naddress = "a:1"\napi_key = "k-secret\n', /wrong\.toml:3\)$/],
    ['[profile.default]\napi_key = k-secret\n', /wrong\.toml:2\)$/],
    ['[profile.default]\napi_kee = "k-secret"\n', /default: api_kee \(.*wrong\.toml\)\. A profile may have address/],
    ['', /Expected a table \[profile\.default\] in .*wrong\.toml$/],
    ['[profile.default]\naddress = 7233\n', /no text, and belongs in quotation marks \(.*wrong\.toml\)$/],
    ['[profile.default]\napi_key = 7233\n', /no text, and belongs in quotation marks/],
    ['[profile.default.tls]\nclient_cert_path = 0\nclient_key_path = 0\n', /no text, and belongs in quotation marks/],
    ['[profile.default.tls]\ndisabled = "true"\n', /tls\.disabled is neither true nor false/],
    ['[profile.default]\napi_key = "k-secret\\nmore"\n', /api_key of the profile, to be printable characters/],
  ] as const) {
    const refusal = said(text)
    assert.match(refusal, expected, text)
    assert.doesNotMatch(refusal, /secret|\n/, text)
  }
  for (const name of ['TEMPORAL_API_KEY', 'TEMPORAL_GRPC_META_X']) {
    const refusal = message({ HOME: join(home, 'empty'), TEMPORAL_ADDRESS: 'a:1', [name]: 'k-secret\nmore' })
    assert.match(refusal, /to be printable characters of ASCII/)
    assert.doesNotMatch(refusal, /secret/)
  }
})

test('refuses a namespace that no call can carry, and certificates that are none or no pair', () => {
  const authority = createAuthority(join(home, 'authority'))
  const [one, other] = [authority.issue('one'), authority.issue('other')]
  const pair = (certPath: string, keyPath: string): NodeJS.ProcessEnv => ({
    HOME: join(home, 'empty'),
    TEMPORAL_ADDRESS: 'a:1',
    TEMPORAL_TLS_CLIENT_CERT_PATH: certPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: keyPath,
  })
  for (const namespace of ['a\nb', 'ä', 'a b']) {
    assert.match(
      message({ TEMPORAL_NAMESPACE: namespace }),
      /Expected the namespace \(.*TEMPORAL_NAMESPACE.* got "[^\n]*"$/,
    )
  }
  const noPair = /TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH\) are no pair in PEM without a password: /
  assert.match(message(pair(file, file)), noPair)
  assert.match(message(pair(one.certPath, other.keyPath)), noPair)
  assert.match(message(pair(one.certPath, home)), /longhaul-profiles-\w+ cannot be read: EISDIR \(TEMPORAL_TLS/)
  assert.match(message({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: file }), /CA_CERT_PATH\) is no certificate in PEM/)
  const settings = readTemporalSettings({
    ...pair(one.certPath, one.keyPath),
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: authority.caPath,
  })
  assert.ok(typeof settings.credentials.tls === 'object' && settings.credentials.tls.clientCertPair !== undefined)
})

test('refuses an address that the transport would interpret differently', () => {
  for (const address of ['http://temporal:7233', 'temporal:99999', 'temporal: 7233']) {
    assert.match(message({ TEMPORAL_ADDRESS: address }), /HOST:PORT, such as temporal:7233, got /)
  }
  for (const address of ['temporal', '[::1]:7233', 'dns:///temporal:7233']) {
    assert.equal(readTemporalSettings({ TEMPORAL_ADDRESS: address }).address, address)
  }
})
