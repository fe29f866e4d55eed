import { fileURLToPath } from 'node:url'

/** The same file runs as `src/stack/x.ts` in a checkout and as `dist/stack/x.js` in an installed package. */
const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts')

export const PACKAGE_ROOT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '')

export function isCheckout(): boolean {
  return RUNS_FROM_SOURCE
}

/** A module of ours as a path that can be given to `node`: `moduleFile('stack/supervise')`. */
export function moduleFile(name: string): string {
  return fileURLToPath(new URL(`../${name}.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url))
}

/** A file that ships beside the code: `packageFile('infra/temporal-cli')`. */
export function packageFile(path: string): string {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url))
}
