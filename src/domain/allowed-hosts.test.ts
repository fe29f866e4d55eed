import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ALLOWED_HOST } from '../contracts/recipe.schema.ts'
import { isAllowedHost } from './allowed-hosts.ts'

const ALLOWED = ['pypi.org', '*.pythonhosted.org', 'mirror.example.org:8443']

const cases: [host: string, port: number, expected: boolean][] = [
  ['pypi.org', 443, true],
  ['pypi.org', 80, true],
  ['PyPI.org.', 443, true],
  ['pypi.org', 22, false],
  ['www.pypi.org', 443, false],
  ['evilpypi.org', 443, false],
  ['pypi.org.evil.net', 443, false],
  ['files.pythonhosted.org', 443, true],
  ['a.b.pythonhosted.org', 443, true],
  ['pythonhosted.org', 443, false],
  ['.pythonhosted.org', 443, false],
  ['evilpythonhosted.org', 443, false],
  ['mirror.example.org', 8443, true],
  ['mirror.example.org', 443, false],
  ['', 443, false],
  // No names, which end as an allowed one does.
  ['evil.net\0.pythonhosted.org', 443, false],
  ['evil.net%00.pythonhosted.org', 443, false],
  ['a@b.pythonhosted.org', 443, false],
  ['a:22.pythonhosted.org', 443, false],
  ['a/b.pythonhosted.org', 443, false],
  ['2606:4700::1111%_.pythonhosted.org', 443, false],
  ['[1.1.1.1].pythonhosted.org', 443, false],
  ['\u00bd.pythonhosted.org', 443, false],
  ['a..pythonhosted.org', 443, false],
  ['pypi.org..', 443, false],
  [`${'a'.repeat(64)}.pythonhosted.org`, 443, false],
  [`${'a.'.repeat(120)}pythonhosted.org`, 443, false],
]
for (const [host, port, expected] of cases) {
  test(`${JSON.stringify(host)}:${port} is ${expected ? 'allowed' : 'refused'}`, () => {
    assert.equal(isAllowedHost({ host, port }, ALLOWED), expected)
  })
}

test('refuses entries that are addresses, schemes, paths or names without a dot', () => {
  for (const entry of ALLOWED) assert.match(entry, ALLOWED_HOST)
  for (const entry of [
    '10.0.0.1',
    '[::1]',
    'localhost',
    'https://pypi.org',
    'pypi.org/simple',
    '*',
    '*.org:',
    'a..b.org',
    'PyPI.org',
  ]) {
    assert.doesNotMatch(entry, ALLOWED_HOST, entry)
  }
})

test('the shortest name that a wildcard matches has one letter before the dot', () => {
  assert.equal(isAllowedHost({ host: 'a.pythonhosted.org', port: 443 }, ALLOWED), true)
})
