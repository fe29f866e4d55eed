/** The simplest tokenizer for any model with more than 258 tokens: one token per byte, after three special ones. */
const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const
const PATTERN = /(<\|endoftext\|>|<\|im_start\|>|<\|im_end\|>)/

export const END_OF_TURN = 2

export function tokensOf(text: string): number[] {
  return text.split(PATTERN).flatMap((part) => {
    const special = (SPECIAL as readonly string[]).indexOf(part)
    return special >= 0 ? [special] : [...Buffer.from(part)].map((byte) => byte + SPECIAL.length)
  })
}

export function textOfTokens(ids: readonly number[]): string {
  const bytes = ids.map((id) =>
    id < SPECIAL.length ? Buffer.from(SPECIAL[id] ?? '') : Buffer.from([id - SPECIAL.length]),
  )
  return Buffer.concat(bytes).toString('utf8')
}
