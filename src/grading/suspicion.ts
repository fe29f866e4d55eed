/**
 * Does the patch carry text that could forge test results? The evaluation script prints the diff into the log it is judged by,
 * so marker text in an added line, or status words behind a lone carriage return, can pose as results. The official verdict
 * is reported as it is; such an episode earns no reward.
 */
export function suspectsForgedResults(patch: Uint8Array): boolean {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(patch)
  return text.includes('>>>>> ') || /\r(?!\n)[^\n]*(?:PASSED|FAILED|SKIPPED|ERROR|XFAIL)/.test(text)
}
