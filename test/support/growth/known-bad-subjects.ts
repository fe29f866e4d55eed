import { hostileTexts } from './hostile-texts.ts'
import type { Subject } from './measure-growth.ts'

/** Former patterns for foreign text, each with an attack that blocked a worker, and one that no attack blocks. */
const PATTERNS = {
  // A line of 4,000 `=` took 171 s.
  cubed: /\b(?:PASSED|XFAIL|XPASS)\b|={3,}[^\n]*\bpassed\b/g,
  squared: /\s*\[\s*\d+ms\s*\]\s*$/g,
  endless: /git (?:-[Cc] \S+ |-\S+ )*fetch/g,
  plain: /a{1,8}b|[0-9]{3}-x/g,
}

export function subjects(): Promise<Subject[]> {
  return Promise.resolve(
    Object.entries(PATTERNS).map(([name, pattern]) => ({
      name,
      texts: () => hostileTexts(pattern),
      run: (text) => void text.replaceAll(pattern, ''),
    })),
  )
}
