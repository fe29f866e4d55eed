import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'

/** Only the fields that decide decoding; a published file says much more. */
const generationConfig = z.object({
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.number().nullish(),
  min_p: z.number().nullish(),
  repetition_penalty: z.number().nullish(),
})

/**
 * The decoding that a base model publishes in its `generation_config.json`, with neutral values for what it leaves out.
 * @returns null where the base is not a directory with such a file
 */
export async function readModelSampling({
  base,
  recipePath,
}: {
  base: string
  recipePath: string | null
}): Promise<SamplingOptions | null> {
  const directory = recipePath === null ? resolve(base) : resolve(dirname(recipePath), base)
  const text = await readFile(resolve(directory, 'generation_config.json'), 'utf8').catch(() => null)
  if (text === null) return null
  const parsed = generationConfig.safeParse(parseJson(text))
  if (!parsed.success) return null
  const { temperature, top_p, top_k, min_p, repetition_penalty } = parsed.data
  return {
    ...NEUTRAL_SAMPLING,
    temperature: temperature ?? NEUTRAL_SAMPLING.temperature,
    topP: top_p ?? NEUTRAL_SAMPLING.topP,
    // Hugging Face writes 0 for "off", servers want −1.
    topK: top_k === undefined || top_k === null || top_k === 0 ? NEUTRAL_SAMPLING.topK : top_k,
    minP: min_p ?? NEUTRAL_SAMPLING.minP,
    repetitionPenalty: repetition_penalty ?? NEUTRAL_SAMPLING.repetitionPenalty,
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
