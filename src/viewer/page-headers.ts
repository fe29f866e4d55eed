/** Security headers of pages, any text of which an agent may have written. */

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  // No string becomes markup: an assignment to innerHTML throws.
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
]

export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY.join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  'cache-control': 'no-store',
}

/** For pages opened as files: 'self' does not cover files in every browser, and the data are scripts beside the page. */
export const FILE_POLICY = [
  "default-src 'none'",
  "script-src 'self' file:",
  "style-src 'self' file:",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ')
