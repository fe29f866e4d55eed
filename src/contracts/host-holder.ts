import type { HostHolder } from './hosts.types.ts'

/** Whether both are one machine. */
export function isSameHolder(one: HostHolder, other: HostHolder): boolean {
  return one.queue === other.queue && one.engine === other.engine
}
