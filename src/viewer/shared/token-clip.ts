/** Whether a ratio lies outside the stage's clip. */
export function isOutsideClip(ratio: number, clip: { low: number; high: number } | null): boolean {
  return clip !== null && (ratio < 1 - clip.low || ratio > 1 + clip.high)
}
