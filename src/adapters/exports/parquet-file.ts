/** Writes rows as Parquet, one row group after another, so that memory holds one group and never the whole file. */
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer'
import type { ScalarType, TableColumn, TableType, TableValue } from '../../contracts/exports.types.ts'
import type { ExportSink } from './write-export.ts'

export interface ParquetInput {
  columns: readonly TableColumn[]
  /** Values in column order. */
  rows: AsyncIterable<readonly TableValue[]>
  /** Stored in the file's footer. */
  metadata: Record<string, string>
}

/** A row group is closed at the first limit that is reached. Trajectories are a thousand times larger than rows of a table. */
const ROWS_OF_A_GROUP = 2_000
const BYTES_OF_A_GROUP = 16_000_000

/**
 * Equal rows give equal bytes: the file contains neither a time nor a machine. Requires at least one row, because Arrow's Rust code
 * refuses a file without a row group.
 */
export async function writeParquet(sink: ExportSink, { columns, rows, metadata }: ParquetInput): Promise<void> {
  const parquet = new ParquetWriter({
    writer: createWriter(sink),
    schema: [{ name: 'root', num_children: columns.length }, ...columns.flatMap(schemaOf)],
    kvMetadata: Object.entries(metadata).map(([key, value]) => ({ key, value })),
    createdBy: 'longhaul',
  })
  let group: (readonly TableValue[])[] = []
  let bytes = 0
  const writeGroup = async (): Promise<void> => {
    if (group.length === 0) return
    const columnData = columns.map(({ name, type }, at) => {
      return { name, data: group.map((row) => toParquet(row[at] ?? null, type)) }
    })
    await parquet.write({ columnData, rowGroupSize: group.length })
    group = []
    bytes = 0
  }
  for await (const row of rows) {
    group.push(row)
    bytes += row.reduce<number>((sum, value) => sum + sizeOf(value), 0)
    if (group.length >= ROWS_OF_A_GROUP || bytes >= BYTES_OF_A_GROUP) await writeGroup()
  }
  await writeGroup()
  await parquet.finish()
}

const SCALARS: Record<ScalarType, Pick<SchemaElement, 'type' | 'converted_type'>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  integer: { type: 'INT64' },
  int32: { type: 'INT32' },
  number: { type: 'DOUBLE' },
  float32: { type: 'FLOAT' },
  boolean: { type: 'BOOLEAN' },
  time: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
}

/** Returns the schema in preorder. Lists have the three levels that the format's specification requires. */
function schemaOf({ name, type }: TableColumn): SchemaElement[] {
  if (typeof type === 'string') return [{ name, ...SCALARS[type], repetition_type: 'OPTIONAL' }]
  if ('list' in type) {
    return [
      { name, repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      ...schemaOf({ name: 'element', type: type.list }),
    ]
  }
  const fields = Object.entries(type.struct)
  return [
    { name, repetition_type: 'OPTIONAL', num_children: fields.length },
    ...fields.flatMap(([field, inner]) => schemaOf({ name: field, type: inner })),
  ]
}

function toParquet(value: TableValue, type: TableType): unknown {
  if (value === null) return null
  if (typeof type !== 'string') {
    if ('list' in type) return (value as readonly TableValue[]).map((entry) => toParquet(entry, type.list))
    const struct = value as { readonly [field: string]: TableValue }
    return Object.fromEntries(
      Object.entries(type.struct).map(([field, inner]) => [field, toParquet(struct[field] ?? null, inner)]),
    )
  }
  switch (type) {
    case 'integer':
      return BigInt(value as number)
    case 'time':
      return new Date(value as number)
    // A lone surrogate has no UTF-8 encoding and is replaced by the replacement character.
    case 'text':
      return (value as string).toWellFormed()
    case 'int32':
    case 'float32':
    case 'number':
    case 'boolean':
      return value
  }
}

/** Approximate size in memory. */
function sizeOf(value: TableValue): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  if (Array.isArray(value)) return value.reduce<number>((sum, entry: TableValue) => sum + sizeOf(entry), 8)
  return Object.values(value).reduce<number>((sum, entry: TableValue) => sum + sizeOf(entry), 8)
}

/** The library requests a flush after each row group and awaits it. */
function createWriter(sink: ExportSink): ByteWriter {
  const writer = new ByteWriter()
  const flush = async (): Promise<void> => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    await sink.write(bytes)
  }
  return Object.assign(writer, { flush, finish: flush })
}
