import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { openPages, packPage } from './packed-pages.ts'

const document = { name: 'é', noise: Array.from({ length: 50 }, () => randomBytes(40).toString('hex')) }

test('reads a document of many pages unchanged', async () => {
  const asked: number[] = []
  const read = await openPages((from) => {
    asked.push(from)
    return Promise.resolve(packPage(document, from, 100))
  })
  assert.deepEqual(read, document)
  assert.ok(asked.length > 5, `${asked.length} pages`)
})

test('reads a document again when it changes between two pages', async () => {
  let pages = 0
  const read = await openPages((from) => {
    pages += 1
    return Promise.resolve(packPage(pages === 1 ? { ...document, name: 'old' } : document, from, 1000))
  })
  assert.deepEqual(read, document)
})

test('a document that always changes is an error with a code', async () => {
  let pages = 0
  const changing = openPages((from) => Promise.resolve(packPage({ ...document, pages: pages++ }, from, 1000)))
  await assert.rejects(changing, (error) => isLonghaulError(error) && error.code === 'Artifact.Conflict')
})
