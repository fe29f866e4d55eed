import { LonghaulError } from '../../contracts/errors.ts'
import { completionsDialect, served } from './completions-dialect.ts'
import type { Dialect } from './dialect.ts'

/**
 * vLLM as it is started for one policy: its name is the version (`--served-model-name`), so that a server that was not
 * restarted answers 404 instead of sampling. Loading only verifies the name; changing it is the operator's restart.
 * Requests were held against vLLM 0.33.0.
 */
export const vllmDialect: Dialect = {
  ...completionsDialect({ leastTokens: 1 }),
  async load({ policy }, send) {
    checkServed(await send(served()), policy.version)
  },
}

function checkServed(models: string[], version: string): void {
  if (models.includes(version)) return
  throw new LonghaulError({
    code: 'Model.NotServed',
    message:
      'Expected the vLLM server to serve the policy. Restart it on the policy’s directory with ' +
      `--served-model-name ${version} --generation-config vllm --logprobs-mode processed_logprobs`,
    details: { served: models.join(' ') },
  })
}
