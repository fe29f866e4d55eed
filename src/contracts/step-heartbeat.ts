/** That of the preset `HOST`. */
const USUAL_S = 20
const SECONDS_FOR_EACH_EPISODE = 0.06
/** Together with the wait in the queue of a host and the back-off still shorter than two thirds of a sandbox's lease. */
export const LONGEST_STEP_SILENCE_S = 120

/**
 * Heartbeat timeout of the steps of episodes, in seconds, where `episodes` run at once; undefined for that of the preset. Each heartbeat
 * costs the server about as much as any other change of a workflow, and the SDK sends one every 0.8 of the timeout: at 20 seconds, those of
 * 5,000 waiting episodes kept a server of two cores from starting more than ten episodes a second. With these timeouts, all episodes together
 * send about 20 a second up to 2,000 of them. The price: a dead host is noticed, and an order to stop arrives, as much later.
 */
export function stepHeartbeatSeconds(episodes: number): number | undefined {
  const seconds = Math.round(Math.min(LONGEST_STEP_SILENCE_S, episodes * SECONDS_FOR_EACH_EPISODE))
  return seconds > USUAL_S ? seconds : undefined
}
