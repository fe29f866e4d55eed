import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pipFile, readPackageSettings } from './package-settings.ts'

function folder(t: { after(undo: () => void): void }): string {
  const path = mkdtempSync(join(tmpdir(), 'longhaul-settings-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}

test('indexes, proxies, certificates and wheels of the user reach a build; other settings of pip do not', (t) => {
  const home = folder(t)
  writeFileSync(join(home, 'ca.pem'), 'certificate')
  const { environment, files, directories } = readPackageSettings({
    HOME: home,
    PIP_CONFIG_FILE: '/dev/null',
    PIP_INDEX_URL: 'https://reader:s3cret-word@registry.example/simple',
    PIP_FIND_LINKS: `${home} https://wheels.example/`,
    PIP_CERT: join(home, 'ca.pem'),
    PIP_TARGET: '/elsewhere',
    https_proxy: 'http://proxy.example:3128',
    SSL_CERT_FILE: join(home, 'ca.pem'),
  })
  assert.deepEqual(environment, {
    PIP_INDEX_URL: 'https://reader:s3cret-word@registry.example/simple',
    PIP_FIND_LINKS: '/mnt/longhaul-wheels-0 https://wheels.example/',
    PIP_CERT: '/run/longhaul-build/file-0',
    https_proxy: 'http://proxy.example:3128',
    SSL_CERT_FILE: '/run/longhaul-build/file-0',
  })
  assert.deepEqual(
    [...files].map(([name, body]) => [name, Buffer.from(body).toString()]),
    [['file-0', 'certificate']],
  )
  assert.deepEqual([...directories], [['/mnt/longhaul-wheels-0', home]])
})

test('a password is a secret as it is written and as it is meant; logs have neither it nor the registry', (t) => {
  const home = folder(t)
  const { secrets, redact } = readPackageSettings({
    HOME: home,
    PIP_CONFIG_FILE: '/dev/null',
    PIP_INDEX_URL: 'https://reader:s3cret%21word@registry.example:8443/simple',
    PIP_EXTRA_INDEX_URL: 'https://token-1234@other.example/simple',
  })
  assert.deepEqual(secrets, ['s3cret%21word', 's3cret!word', 'token-1234', 'token-1234'])
  const log = redact(
    'Looking in indexes: https://reader:****@registry.example:8443/simple, https://token-1234@other.example/simple with s3cret!word',
  )
  assert.doesNotMatch(log, /registry\.example|token-1234|s3cret/)
})

test('pip’s file: sections, spellings, values over several lines; the variable counts more', (t) => {
  const home = folder(t)
  const file = join(home, 'pip.conf')
  writeFileSync(
    file,
    '[global]\nindex_url = https://a.example/simple\n; no\nextra-index-url =\n    https://b.example/simple\n    https://c.example/simple\nuser = true\n[install]\nfind-links: https://d.example\n[list]\nproxy = http://no.example\n',
  )
  assert.deepEqual(
    [...pipFile(file)],
    [
      ['index-url', 'https://a.example/simple'],
      ['extra-index-url', 'https://b.example/simple https://c.example/simple'],
      ['find-links', 'https://d.example'],
    ],
  )
  const { environment } = readPackageSettings({
    HOME: home,
    PIP_CONFIG_FILE: file,
    PIP_INDEX_URL: 'https://mine.example/simple',
  })
  assert.equal(environment['PIP_INDEX_URL'], 'https://mine.example/simple')
  assert.equal(environment['PIP_FIND_LINKS'], 'https://d.example')
})
