import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const folder = new URL('../../docs/decisions/', import.meta.url)

test('every decision is in the index, and every line of the index leads to a decision', () => {
  const records = readdirSync(folder).filter((name) => /^\d{4}-\d{2}-\d{2}-[\w-]+\.md$/.test(name))
  assert.ok(records.length > 0, 'no decision was found')
  const index = readFileSync(new URL('README.md', folder), 'utf8')
  const linked = [...index.matchAll(/\]\((\d{4}[^)]+\.md)\)/g)].map(([, name = '']) => name)
  assert.deepEqual(linked.toSorted(), records.toSorted())
})

test('every decision states its status, context, decision and consequences', () => {
  for (const name of readdirSync(folder).filter((file) => /^\d{4}/.test(file))) {
    const text = readFileSync(new URL(name, folder), 'utf8')
    assert.match(text, /^Status: (accepted|replaced)/m, name)
    for (const heading of ['Context', 'Decision', 'Consequences'])
      assert.match(text, new RegExp(`^## ${heading}`, 'm'), name)
  }
})
