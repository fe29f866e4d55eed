import { randomUUID } from 'node:crypto'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { TEMP_DIRECTORY } from '../store-rules.ts'
import { asStartError } from './s3-errors.ts'
import { createObjects } from './s3-objects.ts'
import type { S3Location } from './s3-location.ts'
import type { SendS3 } from './s3-requests.ts'

export interface CheckBucketInput {
  location: S3Location
  send: SendS3
}

/**
 * Tries the guarantee that records rest on before anything is written: of two writers of one key the second is refused. A
 * server that does not know `If-None-Match` lets both through, and two hosts would play one turn.
 * @throws LonghaulError `Config.Invalid` credentials, bucket, region or a server without conditional writes; `Artifact.Unavailable`
 */
export async function checkBucket({ location, send }: CheckBucketInput): Promise<void> {
  const objects = createObjects(send)
  const name = `${location.prefix}${TEMP_DIRECTORY}/check-${randomUUID()}`
  const write = (text: string) =>
    objects.create({ name, bytes: Buffer.from(text), sha256: sha256Hex(text), writer: text })
  try {
    const first = await write('first')
    try {
      const second = await write('second')
      if (second.created) throw unconditional('it accepted a second put of one key')
      const stored = await objects.get(name)
      if (first.created && stored?.bytes.toString() !== 'first')
        throw unconditional('the second put replaced the first')
    } finally {
      // Records are never removed by workers: credentials that may not remove are no fault.
      await objects.removeAll([name]).catch(() => undefined)
    }
  } catch (error) {
    const details = isLonghaulError(error) ? error.details : {}
    if (details['status'] === 501 || details['code'] === 'NotImplemented')
      throw unconditional('it does not implement the request')
    throw asStartError(error)
  }
}

function unconditional(got: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the artifact store to refuse a second put with If-None-Match: *, ${got}. Use a server with conditional writes: Amazon S3 has them, and newer versions of others`,
  })
}
