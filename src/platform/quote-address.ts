/** Settings that may hold a secret: what a message shows of them, and which are refused because a message of others would show it. */
import { LonghaulError } from '../contracts/errors.ts'

/** Quotes an address for a message, without the user and password that it may hold. */
export function quoteAddress(text: string): string {
  return JSON.stringify(withoutUser(text))
}

export function withoutUser(text: string): string {
  return text.replace(/\/\/[^/?#]*@/g, '//***@')
}

/**
 * Returns a key or token that becomes a header of HTTP. Clients quote a value that no header can carry in their errors, so it is refused
 * before it reaches one. @param name of the variable or setting that holds it
 * @throws LonghaulError `Config.Invalid` without the value
 */
export function requireHeaderValue(name: string, text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw invalid(
    `Expected ${name} to be printable characters of ASCII without spaces: a key that was read from a file may end with a line break`,
  )
}

interface HttpAddressInput {
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
