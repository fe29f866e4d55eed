/** A bucket for the records of a chaos stack: a real S3 server, and a proxy in front of it that causes faults on demand. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { type Fault, type SeenS3Request, startFaultyProxy } from '../artifacts/faulty-proxy.ts'
import { findS3Server, openBucket, startS3Server } from '../artifacts/s3-server.ts'

const PREFIX = 'chaos'
const LONGEST_MS = 60_000

export interface ChaosBucket {
  /** `s3://…` */
  location: string
  /** Variables that a worker needs to use the bucket through the proxy. */
  environment: Record<string, string>
  /** Bypasses the proxy. */
  store: ArtifactStore
  /** Disturbs the requests that the rule selects for this time, and then until one was disturbed, at most a minute longer. @returns
   *  how many were */
  spoil(ms: number, rule: (request: SeenS3Request) => Fault | null): Promise<number>
  /** The server's own file of an object, for faults of the disk below it. */
  fileOf(key: string): string
  close(): Promise<void>
}

/** @throws if the server cannot be built here */
export async function startChaosBucket(): Promise<ChaosBucket> {
  const found = await findS3Server()
  if ('reason' in found) throw new Error(found.reason)
  const server = await startS3Server(found.program)
  const proxy = await startFaultyProxy(server.url)
  const { store } = openBucket(server, { prefix: PREFIX })
  return {
    location: `s3://${server.bucket}/${PREFIX}`,
    environment: { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.url },
    store,
    async spoil(ms, rule) {
      const spoiled: SeenS3Request[] = []
      proxy.obey((request) => {
        const fault = rule(request)
        if (fault !== null) spoiled.push(request)
        return fault
      })
      await sleep(ms)
      // A run lists its records only now and then.
      for (const until = Date.now() + LONGEST_MS; spoiled.length === 0 && Date.now() < until; ) await sleep(200)
      proxy.obey(() => null)
      return spoiled.length
    },
    fileOf: (key) => server.fileOf(`${PREFIX}/${key}`),
    async close() {
      await proxy.close()
      await server.close()
    },
  }
}
