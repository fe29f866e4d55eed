import { packTar, type TarEntry } from 'modern-tar'

export interface FileToPack {
  /** Relative to the target directory; directories end in `/`. */
  name: string
  body?: Uint8Array
  mode: number
}

/** Packs root-owned files into a tar. Times are fixed, so that equal content gives equal bytes. */
export async function packFiles(files: readonly FileToPack[]): Promise<Buffer> {
  const entries = files.map(({ name, body, mode }): TarEntry => {
    const common = { mode, uid: 0, gid: 0, mtime: new Date(0) }
    if (body === undefined) return { header: { ...common, name, type: 'directory', size: 0 } }
    return { header: { ...common, name, type: 'file', size: body.byteLength }, body }
  })
  return Buffer.from(await packTar(entries))
}
