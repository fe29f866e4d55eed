/** A real S3 server, versitygw over a directory, built once from Go modules into the user cache. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseS3Location } from '../../../src/adapters/artifacts/s3/s3-location.ts'
import type { LocalWeights } from '../../../src/adapters/artifacts/weights/bucket-weights.ts'
import { createS3Requests, type S3RequestsOptions } from '../../../src/adapters/artifacts/s3/s3-requests.ts'
import { createS3Store } from '../../../src/adapters/artifacts/s3/s3-store.ts'
import { packageFile } from '../../../src/stack/paths.ts'
import { findGoPrograms } from '../go-programs.ts'
import { freePort } from '../loopback.ts'
import { HANG_MS } from '../hang.ts'

export const S3_KEY = 'longhaul-test-key'
/** Tests search for it in logs and histories. */
export const S3_SECRET = 'longhaul-test-secret-canary'

export interface S3Server {
  url: string
  bucket: string
  /** The file in which the server stores an object. */
  fileOf(name: string): string
  /** Variables that a process needs to use the server. */
  environment: Record<string, string>
  close(): Promise<void>
}

/** The program, or the reason why it cannot be built here. With a warm Go cache a build takes a minute, so tests build it. */
export async function findS3Server(): Promise<{ program: string } | { reason: string }> {
  const found = await findGoPrograms({
    what: 'the S3 server',
    module: packageFile('infra/s3-server'),
    revision: '-mod=readonly -buildvcs=false -trimpath -ldflags -s -w',
    commands: ['github.com/versity/versitygw/cmd/versitygw'],
    target: (key) => join('s3-server', key, 'versitygw'),
    builtBy: null,
  })
  return 'path' in found ? { program: found.path } : found
}

/** Serves one empty bucket on loopback. */
export async function startS3Server(program: string): Promise<S3Server> {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-s3-'))
  const [data, meta] = [join(root, 'data'), join(root, 'meta')]
  const bucket = 'records'
  await mkdir(join(data, bucket), { recursive: true })
  await mkdir(meta)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  // Metadata is stored beside the files, because some file systems have no extended attributes.
  const server = spawn(program, ['--port', `127.0.0.1:${port}`, 'posix', '--sidecar', meta, data], {
    env: { ...process.env, ROOT_ACCESS_KEY: S3_KEY, ROOT_SECRET_KEY: S3_SECRET },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [server.stdout, server.stderr])
    stream.on('data', (bytes: Buffer) => (said = `${said}${bytes.toString()}`.slice(-4_000)))
  const close = async (): Promise<void> => {
    await stop(server)
    await rm(root, { recursive: true, force: true })
  }
  const deadline = Date.now() + HANG_MS
  while (!(await answers(url))) {
    if (server.exitCode !== null || Date.now() > deadline) {
      await close()
      throw new Error(`Expected the S3 server to answer at ${url}, it says: ${said}`)
    }
    await sleep(50)
  }
  return {
    url,
    bucket,
    fileOf: (name) => join(data, bucket, name),
    environment: {
      AWS_ENDPOINT_URL_S3: url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: S3_KEY,
      AWS_SECRET_ACCESS_KEY: S3_SECRET,
    },
    close,
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(1_000) }).then(
    () => true,
    () => false,
  )
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = new Promise<void>((resolve) => server.once('exit', () => resolve()))
  server.kill('SIGKILL')
  await ended
}

export interface OpenBucketOptions
  extends Partial<Pick<S3RequestsOptions, 'giveUpAfterMs' | 'answerMs' | 'onTransientError'>> {
  /** @default `lab/one` */
  prefix?: string
  /** Address of a proxy in front of the server. @default the server's own */
  url?: string
  /** @default the server's only one */
  bucket?: string
  /** @default the correct one */
  secret?: string
  /** Local cache of weights. @default none, as for commands that only read */
  place?: LocalWeights
}

/** The store on this server, and its lower layers. */
export function openBucket(server: S3Server, options: OpenBucketOptions = {}) {
  const { prefix = 'lab/one', url = server.url, bucket = server.bucket, secret = S3_SECRET, place, ...limits } = options
  const name = `s3://${bucket}/${prefix}`
  const location = parseS3Location(name, { AWS_ENDPOINT_URL_S3: url })
  const credentials = async () => ({ accessKeyId: S3_KEY, secretAccessKey: secret })
  const send = createS3Requests({ location, credentials, store: name, ...limits })
  return { location, send, store: createS3Store({ location, send, ...(place === undefined ? {} : { place }) }) }
}
