import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import { importModel } from './import-model.ts'

/** What the command says when its Python ends in that way. */
async function saidOf(script: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-import-'))
  try {
    const python = join(directory, 'python')
    await writeFile(python, `#!/bin/sh\n${script}\n`)
    await chmod(python, 0o755)
    await importModel({
      source: directory,
      output: join(directory, 'made'),
      chatFormat: null,
      tokenizer: null,
      python,
      environment: process.env,
      log: () => {},
      signal: new AbortController().signal,
    })
    return 'no error'
  } catch (error) {
    assert.ok(isLonghaulError(error), String(error))
    return `${error.code}: ${error.message}`
  } finally {
    await rm(directory, { recursive: true })
  }
}

test('an importer that fails in a way of its own: the error itself, without its stack', async () => {
  const trace = 'Traceback (most recent call last):\\n  File "x.py", line 5, in read\\nValueError: no such thing\\n'
  assert.equal(
    await saidOf(`printf '${trace}' >&2; exit 1`),
    'Trainer.Failed: Expected the trainer to import the model, but it exited with 1: ValueError: no such thing',
  )
  assert.match(
    await saidOf('echo "progress: writing" >&2; kill -9 $$'),
    /but it was killed, by the system if memory ran out/,
  )
  assert.match(
    await saidOf('echo "io-error: No space left on device (os error 28)" >&2; exit 74'),
    /^Artifact\.OutOfDisk: Expected room for the policy on the disk of .*made: No space left .* another --output/,
  )
  assert.equal(await saidOf('echo "input-unusable: Expected a model" >&2; exit 66'), 'Config.Invalid: Expected a model')
})
