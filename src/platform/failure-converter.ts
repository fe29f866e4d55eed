import { DefaultFailureConverter } from '@temporalio/common'

/** Puts messages and stack traces of failures into payloads, where the codec encrypts them. In bundles with encryption on. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true })

/** What `platform/data-converter.ts` looks for in a bundle. */
export const marker = 'longhaul-encodes-failures'
