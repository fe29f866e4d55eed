import { WellFormedFailureConverter } from './well-formed-failures.ts'

/** Puts messages and stack traces of failures into payloads, where the codec encrypts them. In bundles with encryption on. */
export const failureConverter = new WellFormedFailureConverter({ encodeCommonAttributes: true })

/** What `platform/data-converter.ts` looks for in a bundle. */
export const marker = 'longhaul-encodes-failures'
