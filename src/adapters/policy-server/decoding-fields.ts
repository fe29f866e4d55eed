import type { SamplingOptions } from '../../contracts/episodes.types.ts'

/**
 * Every decoding field by the name that vLLM, SGLang and the embedded server share. One left out falls back to the engine's
 * default or to the model's generation config, which biases the distribution silently.
 */
export function decodingFields(sampling: SamplingOptions) {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
  }
}
