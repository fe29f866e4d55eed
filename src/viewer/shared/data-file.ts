/** Where a static report keeps a page. Parts of a name are encoded, so that none of them can lead elsewhere, and no two names meet. */
export function dataFile(name: string): string {
  const encode = (part: string): string =>
    encodeURIComponent(part).replaceAll('~', '%7E').replaceAll('.', '%2E').replaceAll('%', '~')
  return `data/${name.split('/').map(encode).join('/')}.js`
}
