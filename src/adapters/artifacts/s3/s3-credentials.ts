/** The only importer of the AWS packages: keys by the chain that every S3 program of this machine uses. */
import { defaultProvider } from '@aws-sdk/credential-provider-node'
import { needsPerson } from './s3-errors.ts'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

/** @param options `renew`: what was given before has expired, whatever it says itself */
export type CredentialSource = (options: { renew: boolean }) => Promise<S3Credentials>

/** A metadata service that does not answer must not hold up a worker for longer than its store may. */
const ANSWER_MS = 15_000

/** Variables, profile files with SSO and assumed roles, web identity, container and instance roles, in the order of the AWS SDKs. */
export function credentialChain(): CredentialSource {
  const provide = defaultProvider({ timeout: 2_000, maxRetries: 2 })
  return async ({ renew }) => {
    const silence = AbortSignal.timeout(ANSWER_MS)
    const late = new Promise<never>((_, reject) => {
      silence.addEventListener('abort', () => reject(new Error(`no answer within ${ANSWER_MS / 1000} s`)), {
        once: true,
      })
    })
    try {
      return await Promise.race([provide({ forceRefresh: renew }), late])
    } catch (cause) {
      throw needsPerson(
        `Expected credentials for the artifact store: ${firstLine(cause)}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine a role`,
      )
    }
  }
}

/** The chain names places, never values. The cause stays out: it may hold the answer of a metadata service. */
function firstLine(cause: unknown): string {
  return (cause instanceof Error ? cause.message : String(cause)).split('\n')[0]?.slice(0, 200) ?? ''
}
