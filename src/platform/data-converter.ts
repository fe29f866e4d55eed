import { fileURLToPath } from 'node:url'
import type { DataConverter } from '@temporalio/common'
import { createPayloadCodec, readCodecKeys } from './payload-codec.ts'

const FAILURE_CONVERTER = moduleBeside('failure-converter')
const WELL_FORMED_FAILURES = moduleBeside('well-formed-failures')

/** Works on the sources (`.ts`) and on the compiled package (`.js`) alike. */
function moduleBeside(name: string): string {
  return fileURLToPath(new URL(`./${name}.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url))
}

/** How clients and workers write payloads and failures: payloads in the SDK's own way unless LONGHAUL_CODEC_KEYS names keys.
 *  @throws LonghaulError `Config.Invalid` */
export function dataConverterOf(env: NodeJS.ProcessEnv = process.env): { dataConverter: DataConverter } {
  const keys = readCodecKeys(env)
  if (keys === null) {
    return { dataConverter: { payloadCodecs: [createPayloadCodec([])], failureConverterPath: WELL_FORMED_FAILURES } }
  }
  return { dataConverter: { payloadCodecs: [createPayloadCodec(keys)], ...failureConverterOf(env) } }
}

/** For the bundle of the workflows, which needs no key: with encryption on, failures put their messages where the codec reaches them. */
export function failureConverterOf(env: NodeJS.ProcessEnv = process.env): { failureConverterPath?: string } {
  return (env['LONGHAUL_CODEC_KEYS'] ?? '') === '' ? {} : { failureConverterPath: FAILURE_CONVERTER }
}

/** In the text of a bundle that has the converter: one without it would write messages of failures in the clear. */
export const ENCODES_FAILURES = 'longhaul-encodes-failures'
