import { readFileSync } from 'node:fs'

/** Version of this package, from the package.json above both `src` and `dist`. */
export function packageVersion(): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
