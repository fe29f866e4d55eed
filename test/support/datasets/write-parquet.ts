/** Parquet as publishers write it: by Arrow's Rust implementation, which shares no code with Longhaul's reader. */
import {
  Bool,
  type DataType,
  Field,
  Float64,
  Int64,
  List,
  Struct,
  Table,
  tableToIPC,
  TimestampMillisecond,
  Utf8,
  vectorFromArray,
} from 'apache-arrow'
import * as parquet from 'parquet-wasm'

/** A column's type: lists have one entry, structs are objects. */
export type ColumnType =
  | 'text'
  | 'float'
  | 'int64'
  | 'timestamp'
  | 'bool'
  | [ColumnType]
  | { [name: string]: ColumnType }
export type RowSchema = Record<string, ColumnType>

export interface WriteParquetInput {
  schema: RowSchema
  rows: Record<string, unknown>[]
  compression?: keyof typeof parquet.Compression
  /** Rows per row group. */
  groupSize?: number
}

export function writeParquet({
  schema,
  rows,
  compression = 'SNAPPY',
  groupSize = 1000,
}: WriteParquetInput): Uint8Array {
  const columns = Object.entries(schema).map(([name, type]) => {
    const values = rows.map((row) => row[name] ?? null)
    return [name, vectorFromArray(values, arrowType(type))] as const
  })
  const table = parquet.Table.fromIPCStream(tableToIPC(new Table(Object.fromEntries(columns)), 'stream'))
  const properties = new parquet.WriterPropertiesBuilder()
    .setCompression(parquet.Compression[compression])
    .setMaxRowGroupSize(groupSize)
    .build()
  return parquet.writeParquet(table, properties)
}

function arrowType(type: ColumnType): DataType {
  if (Array.isArray(type)) return new List(new Field('element', arrowType(type[0]), true))
  if (typeof type === 'object') {
    return new Struct(Object.entries(type).map(([name, inner]) => new Field(name, arrowType(inner), true)))
  }
  switch (type) {
    case 'text':
      return new Utf8()
    case 'float':
      return new Float64()
    case 'int64':
      return new Int64()
    case 'timestamp':
      return new TimestampMillisecond()
    case 'bool':
      return new Bool()
  }
}
