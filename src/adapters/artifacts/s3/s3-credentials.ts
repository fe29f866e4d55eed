/** The only importer of the AWS packages. It obtains keys through the chain that every S3 program on this machine uses. */
import { defaultProvider } from '@aws-sdk/credential-provider-node'
import { requireHeaderValue } from '../../../platform/quote-address.ts'
import { needsPerson } from './s3-errors.ts'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

/** @param options `renew` means that the previous credentials were refused as expired, whatever their stated expiry */
export type CredentialSource = (options: { renew: boolean }) => Promise<S3Credentials>

/** A silent metadata service must not delay a worker for longer than its store may. */
const ANSWER_MS = 15_000

/** Tries variables, profile files with SSO and assumed roles, web identity, container and instance roles, in the order of the AWS
 *  SDKs. */
export function credentialChain(): CredentialSource {
  const provide = defaultProvider({ timeout: 2_000, maxRetries: 2 })
  return async ({ renew }) => {
    const silence = AbortSignal.timeout(ANSWER_MS)
    const late = new Promise<never>((_, reject) => {
      silence.addEventListener('abort', () => reject(new Error(`no answer within ${ANSWER_MS / 1000} s`)), {
        once: true,
      })
    })
    const found = await Promise.race([provide({ forceRefresh: renew }), late]).catch((cause: unknown) => {
      throw needsPerson(
        `Expected credentials for the artifact store: ${firstLine(cause)}${sought()}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine a role`,
      )
    })
    requireUsable(found)
    return found
  }
}

/** The chain does not say that a profile is not in the files. */
function sought(): string {
  const profile = process.env['AWS_PROFILE'] ?? ''
  return profile === '' ? '' : ` (AWS_PROFILE is ${JSON.stringify(profile.slice(0, 80))})`
}

/** The secret key alone never becomes part of a request. */
function requireUsable({ accessKeyId, sessionToken }: S3Credentials): void {
  try {
    requireHeaderValue('AWS_ACCESS_KEY_ID, or aws_access_key_id of the profile,', accessKeyId)
    if (sessionToken !== undefined) {
      requireHeaderValue('AWS_SESSION_TOKEN, or aws_session_token of the profile,', sessionToken)
    }
  } catch (error) {
    throw needsPerson((error as Error).message)
  }
}

/** The chain's message names sources and never values. The cause is omitted, because it may contain the answer of a metadata service. */
function firstLine(cause: unknown): string {
  return (cause instanceof Error ? cause.message : String(cause)).split('\n')[0]?.slice(0, 200) ?? ''
}
