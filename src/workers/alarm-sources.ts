import type { AlarmSources } from '../contracts/alarms.types.ts'
import { connect, type LonghaulConnection, lookForAlarms, reasonOfEnd } from '../client/index.ts'
import type { TemporalSettings } from '../platform/temporal-settings.ts'

/**
 * Queries the server for the watch of a control worker, through the client, like `longhaul run blockers`. Each check opens its own
 * connection, so that the worker holds none between checks that are minutes apart.
 */
export function alarmSources({ address, namespace }: Pick<TemporalSettings, 'address' | 'namespace'>): AlarmSources {
  const connected = async <T>(work: (connection: LonghaulConnection) => Promise<T>): Promise<T> => {
    const connection = await connect({ address, namespace })
    try {
      return await work(connection)
    } finally {
      await connection.close()
    }
  }
  return {
    look: (input) => connected((connection) => lookForAlarms({ connection, ...input })),
    reasonOf: (workflowId) => connected((connection) => reasonOfEnd(connection, workflowId)),
  }
}
