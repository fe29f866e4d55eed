/** File of a page in a static report. Encodes each part of the name, so that no part leads elsewhere and no two names collide. */
export function dataFile(name: string): string {
  const encode = (part: string): string =>
    encodeURIComponent(part).replaceAll('~', '%7E').replaceAll('.', '%2E').replaceAll('%', '~')
  return `data/${name.split('/').map(encode).join('/')}.js`
}
