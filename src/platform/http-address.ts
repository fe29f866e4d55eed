import { LonghaulError } from '../contracts/errors.ts'

export interface HttpAddressInput {
  /** The variable or option that holds the address. */
  name: string
  text: string
  /** One that would be right, for the message. */
  example: string
}

/**
 * Returns the address of a server of HTTP. Programs show their servers' addresses in errors, so one with a password is refused.
 * @throws LonghaulError `Config.Invalid` without the address
 */
export function requireHttpAddress({ name, text, example }: HttpAddressInput): string {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw invalid(`Expected ${name} to be an http(s) address, such as ${example}`)
  }
  if (`${url.username}${url.password}${url.search}${url.hash}` === '') return text
  throw invalid(`Expected ${name} to be an address without user, password, query or fragment, such as ${example}`)
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
