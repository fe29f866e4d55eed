import assert from 'node:assert/strict'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { readInputFile } from './input-file.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-input-'))
after(() => rm(folder, { recursive: true }))

async function refusal(path: string): Promise<string> {
  const error: unknown = await readInputFile({ path, what: 'a letter', maxBytes: 1024 * 1024 }).catch(
    (cause: unknown) => cause,
  )
  assert.ok(isLonghaulError(error), String(error))
  return `${error.code}: ${error.message}`
}

test('an unreadable file gives a message with the path and the reason', async () => {
  const file = async (name: string, content: string | Uint8Array): Promise<string> => {
    await writeFile(join(folder, name), content)
    return join(folder, name)
  }
  await symlink('circle', join(folder, 'circle'))
  await symlink('nowhere', join(folder, 'dangling'))
  const table: [path: string, code: string, reason: string][] = [
    [join(folder, 'none'), 'Config.NotFound', 'there is no such file'],
    [join(folder, 'dangling'), 'Config.NotFound', 'there is no such file'],
    [folder, 'Config.Invalid', 'it is a directory'],
    [join(folder, 'circle'), 'Config.Invalid', 'its symbolic links form a circle'],
    [join(folder, 'x'.repeat(300)), 'Config.Invalid', 'it cannot be read (ENAMETOOLONG)'],
    [
      await file('utf-16', Buffer.from('\uFEFFseed: 1\n', 'utf16le')),
      'Config.Invalid',
      'it is UTF-16; save it as UTF-8',
    ],
    [await file('binary', Uint8Array.of(0x23, 0xff, 0xc3)), 'Config.Invalid', 'it is not UTF-8 text'],
    [await file('large', 'x'.repeat(1024 * 1024 + 1)), 'Config.Invalid', 'it is larger than 1 MiB'],
    ['/dev/zero', 'Config.Invalid', 'it is larger than 1 MiB'],
  ]
  for (const [path, code, reason] of table) {
    assert.equal(await refusal(path), `${code}: Expected a letter at ${path}: ${reason}`)
  }
})

test('reads text without its byte order mark and keeps line ends', async () => {
  const path = join(folder, 'windows')
  await writeFile(path, '\uFEFFseed: 1\r\n')
  assert.equal(await readInputFile({ path, what: 'a letter' }), 'seed: 1\r\n')
})
