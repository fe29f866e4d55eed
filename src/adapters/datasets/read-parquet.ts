import { type AsyncBuffer, type FileMetaData, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import { decodeText } from './decode-text.ts'
import { plainValue } from './plain-row.ts'
import type { LabelledRow } from './read-rows.ts'

interface ReadParquetInput {
  file: AsyncBuffer
  /** Named in labels and messages. */
  name: string
}

/**
 * Rows of a Parquet file in order, one row group after another, so that only those that are asked for are fetched.
 * @throws LonghaulError `Task.Invalid` when it is not a Parquet file that can be read
 */
export async function* readParquet({ file, name }: ReadParquetInput): AsyncGenerator<LabelledRow> {
  const metadata = await named(name, () => parquetMetadataAsync(file))
  let rowStart = 0
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows)
    const rows = await named(name, () => readRange({ file, metadata, rowStart, rowEnd }))
    for (const [index, row] of rows.entries()) {
      yield { row: plainValue(row), label: `${name} row ${rowStart + index + 1}` }
    }
    rowStart = rowEnd
  }
}

interface RangeInput {
  file: AsyncBuffer
  metadata: FileMetaData
  rowStart: number
  rowEnd: number
}

function readRange(input: RangeInput): Promise<Record<string, unknown>[]> {
  // The reader's own decoder drops byte order marks and replaces bytes that are no UTF-8.
  const parsers = { stringFromBytes: (bytes: Uint8Array | undefined) => bytes && decodeText(bytes) }
  return parquetReadObjects({ ...input, compressors, parsers, utf8: false })
}

async function named<T>(name: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (cause) {
    const known = toLonghaulError(cause)
    if (known.code !== 'Unexpected') throw known
    throw new LonghaulError({
      code: 'Task.Invalid',
      message: `Expected a Parquet file, got ${known.message}`,
      details: { file: name },
      cause,
    })
  }
}
