import { LonghaulError } from '../../contracts/errors.ts'

/**
 * Refuses OPENAI_CUSTOM_HEADERS, whose headers the package `openai` adds to every request of the process, whatever the server.
 * @throws LonghaulError `Config.Invalid`; without the value, which may be a secret
 */
export function refuseCustomHeaders(env: NodeJS.ProcessEnv): void {
  if ((env['OPENAI_CUSTOM_HEADERS'] ?? '').trim() === '') return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected no OPENAI_CUSTOM_HEADERS in the environment: its headers would go to every policy server. Unset it; a key ' +
      'belongs into LONGHAUL_POLICY_API_KEY or the variable that policyServer.chat.apiKeyVariable names',
  })
}
