export interface LaneWork {
  /** Files that share the stack, one after another: the longest chain of all. */
  stack(): Promise<void>
  units(): Promise<void>
  /** System tests that bring their own parts. */
  apart(): Promise<void>
  trainer(): Promise<void>
}

/**
 * The lane on the stack begins at once, because it waits as much as it computes and nothing can shorten it; what fills the cores
 * runs beside it. Begun after the units, it was left alone for its last quarter, with half of the machine idle.
 * @throws what a lane threw, after all of them have ended: none may be running while the stack is taken down
 */
export async function playLanes({ stack, units, apart, trainer }: LaneWork): Promise<void> {
  const beside = async (): Promise<void> => {
    await units()
    await allEnded([apart(), trainer()])
  }
  await allEnded([stack(), beside()])
}

async function allEnded(lanes: Promise<void>[]): Promise<void> {
  const broken = (await Promise.allSettled(lanes)).find((end) => end.status === 'rejected')
  if (broken !== undefined) throw broken.reason
}
