/** The safetensors container: a length, a JSON header, then the arrays without gaps, little-endian. */

export type TensorType = 'I64' | 'I32' | 'F32' | 'U8'
export type TensorArray = BigInt64Array | Int32Array | Float32Array | Uint8Array

export interface Tensor {
  name: string
  dtype: TensorType
  shape: number[]
  data: TensorArray
}

/** Readers map the data directly into memory, and the first array holds 8-byte numbers. */
const ALIGNMENT = 64
const LENGTH_BYTES = 8

/** Encodes the tensors in the given order. Wider types must come first, because narrower ones would break their alignment. */
export function encodeSafetensors(tensors: readonly Tensor[]): Uint8Array {
  const header: Record<string, { dtype: TensorType; shape: number[]; data_offsets: [number, number] }> = {}
  let at = 0
  for (const { name, dtype, shape, data } of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] }
    at += data.byteLength
  }
  const text = Buffer.from(JSON.stringify(header))
  const dataStart = Math.ceil((LENGTH_BYTES + text.byteLength) / ALIGNMENT) * ALIGNMENT
  const file = Buffer.alloc(dataStart + at, ' ', 'latin1')
  file.writeBigUInt64LE(BigInt(dataStart - LENGTH_BYTES), 0)
  text.copy(file, LENGTH_BYTES)
  let offset = dataStart
  for (const { data } of tensors) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), offset)
    offset += data.byteLength
  }
  return file
}

export interface StoredTensor {
  dtype: string
  shape: number[]
  bytes: Uint8Array
}

/** Returns the tensors by name. Throws a plain `Error` for an invalid file, and the caller adds which artifact is broken. */
export function decodeSafetensors(file: Uint8Array): Map<string, StoredTensor> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  const headerBytes = file.byteLength < LENGTH_BYTES ? -1 : Number(view.getBigUint64(0, true))
  const dataStart = LENGTH_BYTES + headerBytes
  if (headerBytes < 2 || dataStart > file.byteLength) throw new Error('not a safetensors file')
  const header = JSON.parse(new TextDecoder().decode(file.subarray(LENGTH_BYTES, dataStart))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >
  const tensors = new Map<string, StoredTensor>()
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue
    const [from, to] = entry.data_offsets
    if (!(0 <= from && from <= to && dataStart + to <= file.byteLength))
      throw new Error(`tensor ${name} lies outside the file`)
    tensors.set(name, { dtype: entry.dtype, shape: entry.shape, bytes: file.slice(dataStart + from, dataStart + to) })
  }
  return tensors
}
