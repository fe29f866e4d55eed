import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../contracts/errors.ts'
import { bad, isObject } from './reply.ts'
import { completionsDialect } from './completions-dialect.ts'
import type { Dialect } from './dialect.ts'

/** The server of `trainer/`: several versions side by side, leased by runs. */
export const embeddedDialect: Dialect = {
  ...completionsDialect({ leastTokens: 0 }),
  async load({ policy, holder, leaseMs }, send) {
    await send({
      path: '/v1/reload',
      body: {
        path: localPath(policy.uri),
        version: policy.version,
        manifest_sha256: policy.manifestSha256,
        holder,
        lease_s: leaseMs / 1000,
      },
      policy: policy.version,
      parse: (answer) => checkLoaded(answer, policy.version),
    })
  },
  release: ({ holder }) => ({ path: '/v1/release', body: { holder }, policy: null, parse: () => null }),
}

function checkLoaded(answer: unknown, version: string): null {
  const loaded = isObject(answer) ? answer['version'] : undefined
  if (loaded !== version)
    throw bad('the loaded version to be the asked one', { asked: version, loaded: String(loaded) })
  return null
}

/** @throws LonghaulError `Config.Invalid` for a policy that is not in the file system */
export function localPath(uri: string): string {
  if (uri.startsWith('file://')) return fileURLToPath(uri)
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected a file:// policy directory: a policy server loads from its own file system',
    details: { uri },
  })
}
