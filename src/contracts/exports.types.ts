/** Types of the columns of exported tables. */

/** `integer`: 64 bits; `time`: Unix ms, UTC. */
export type ScalarType = 'text' | 'integer' | 'int32' | 'number' | 'float32' | 'boolean' | 'time'

export type TableType = ScalarType | { list: TableType } | { struct: Readonly<Record<string, TableType>> }

/** A struct is an object with the names of its fields. */
export type TableValue =
  | string
  | number
  | boolean
  | null
  | readonly TableValue[]
  | { readonly [field: string]: TableValue }

export interface TableColumn {
  name: string
  type: TableType
}
