/** Quotes an address for a message, without the user and password that it may hold. */
export function quoteAddress(text: string): string {
  return JSON.stringify(text.replace(/\/\/[^/?#]*@/g, '//***@'))
}
