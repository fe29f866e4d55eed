/**
 * The part of the Kubernetes API that sandboxes need, with real containers of an engine for pods: for tests of everything between a
 * worker and a runner on machines without a cluster. It has no scheduler, kubelet or admission chain: kubernetes-sandbox.test.ts has
 * the real ones.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { createDemultiplexer } from '../../../src/adapters/docker/engine/exec-stream.ts'
import type { ClusterAccess } from '../../../src/adapters/kubernetes/cluster-access.ts'
import type { ContainerStatus, Pod } from '../../../src/adapters/kubernetes/pod-spec.ts'
import { packageFile } from '../../../src/stack/paths.ts'
import { listenOnLoopback } from '../loopback.ts'

export interface PodsApi {
  access: ClusterAccess
  /** `POST pods`, `GET pods/NAME/exec`, in order. */
  requests: string[]
  /** Refuses the next requests of this method and kind. */
  refuse(what: string, status: number, body: object): void
  close(): Promise<void>
}

interface Stored {
  metadata: { name: string }
  data?: Record<string, string>
  binaryData?: Record<string, string>
}

/** The web socket protocol's constant for the handshake. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

export async function startPodsApi(engine: Engine): Promise<PodsApi> {
  const volumes = await mkdtemp(join(tmpdir(), 'pods-api-'))
  const pods = new Map<string, Pod>()
  const maps = new Map<string, Stored>()
  const policies = new Set<string>()
  const requests: string[] = []
  const refusals = new Map<string, { status: number; body: object }>()
  const seccomp = await readFile(packageFile('infra/kubernetes/runner-seccomp.json'), 'utf8')

  const start = async (pod: Pod): Promise<void> => {
    const [container] = pod.spec.containers
    if (container === undefined) throw new Error('a pod without a container')
    const { command, workingDir, resources, securityContext } = container as unknown as {
      command: string[]
      workingDir: string
      resources: { limits: { memory: string } }
      securityContext: { capabilities: { drop: string[]; add: string[] } }
    }
    const [volume] = pod.spec.volumes as { configMap: { name: string } }[]
    const folder = await writeMap(volume?.configMap.name ?? '')
    const made = await engine.docker.createContainer({
      name: pod.metadata.name,
      Image: container.image,
      Entrypoint: [],
      Cmd: command,
      WorkingDir: workingDir,
      User: 'root',
      Hostname: 'sandbox',
      NetworkDisabled: true,
      Env: ['KUBERNETES_SERVICE_HOST=10.255.0.1'],
      HostConfig: {
        NetworkMode: 'none',
        CapDrop: securityContext.capabilities.drop,
        CapAdd: securityContext.capabilities.add,
        SecurityOpt: ['no-new-privileges:true', `seccomp=${seccomp}`],
        Memory: bytesOf(resources.limits.memory),
        MemorySwap: bytesOf(resources.limits.memory),
        Binds: [`${folder}:/.lh-runner:ro`],
      },
    })
    await made.start()
  }

  const writeMap = async (name: string): Promise<string> => {
    const folder = join(volumes, name)
    const { data = {}, binaryData = {} } = maps.get(name) ?? {}
    await mkdir(folder, { recursive: true })
    for (const [file, text] of Object.entries(data)) await writeFile(join(folder, file), text, { mode: 0o555 })
    for (const [file, text] of Object.entries(binaryData)) {
      // A running program's file cannot be overwritten.
      await rm(join(folder, file), { force: true })
      await writeFile(join(folder, file), Buffer.from(text, 'base64'), { mode: 0o555 })
    }
    return folder
  }

  const withStatus = async (pod: Pod): Promise<Pod | null> => {
    const found = await engine.docker
      .getContainer(pod.metadata.name)
      .inspect()
      .catch(() => null)
    if (found === null) return pods.has(pod.metadata.name) ? { ...pod, status: { phase: 'Pending' } } : null
    const { State: state, Image: imageID } = found
    if (state.Status === 'created') return { ...pod, status: { phase: 'Pending' } }
    const status: ContainerStatus = {
      imageID,
      state: state.Running
        ? { running: { startedAt: state.StartedAt } }
        : { terminated: { exitCode: state.ExitCode, reason: 'Error', finishedAt: state.FinishedAt } },
    }
    const ended = state.ExitCode === 0 ? 'Succeeded' : 'Failed'
    return { ...pod, status: { phase: state.Running ? 'Running' : ended, containerStatuses: [status] } }
  }

  const answerPods = async (method: string, name: string | undefined, body: string): Promise<[number, object]> => {
    if (method === 'POST') {
      const pod = JSON.parse(body) as Pod
      if (pods.has(pod.metadata.name)) return refusal(409, 'AlreadyExists', pod.metadata.name)
      pod.metadata.uid = randomUUID()
      pods.set(pod.metadata.name, pod)
      await start(pod)
      return [201, pod]
    }
    if (name === undefined) {
      const items = (await Promise.all([...pods.values()].map(withStatus))).filter((pod) => pod !== null)
      return [200, { items }]
    }
    const known = pods.get(name)
    const pod = known === undefined ? null : await withStatus(known)
    if (pod === null) return refusal(404, 'NotFound', `pods "${name}" not found`)
    if (method === 'DELETE') {
      pods.delete(name)
      await engine.docker.getContainer(name).remove({ force: true, v: true })
    }
    return [200, pod]
  }

  const answer = async (method: string, path: string, body: string): Promise<[number, object]> => {
    const [, kind = '', name] = /^\/apis?\/.*\/namespaces\/[^/]+\/(\w+)(?:\/([^/]+))?/.exec(path) ?? []
    requests.push(`${method} ${kind}`)
    const refused = refusals.get(`${method} ${kind}`)
    if (refused !== undefined) return [refused.status, refused.body]
    if (kind === 'pods') return answerPods(method, name, body)
    const parsed = method === 'POST' ? (JSON.parse(body) as Stored) : null
    if (kind === 'configmaps') {
      if (parsed !== null) maps.set(parsed.metadata.name, parsed)
      const found = maps.get(parsed?.metadata.name ?? name ?? '')
      return found === undefined ? refusal(404, 'NotFound', `configmaps "${name}" not found`) : [200, found]
    }
    if (kind === 'networkpolicies' && parsed !== null) {
      if (policies.has(parsed.metadata.name)) return refusal(409, 'AlreadyExists', parsed.metadata.name)
      policies.add(parsed.metadata.name)
      return [201, parsed]
    }
    return path === '/version' ? [200, { gitVersion: 'v1.36.3' }] : refusal(404, 'NotFound', path)
  }

  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => {
      answer(request.method ?? '', new URL(request.url ?? '', 'http://api').pathname, body)
        .catch((error: unknown) => refusal(500, 'InternalError', String(error)))
        .then(([status, value]) => {
          response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
        })
        .catch(() => response.destroy())
    })
  })
  server.on('upgrade', (request, socket, head) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://api')
    const name = pathname.split('/').at(-2) ?? ''
    requests.push('GET pods/exec')
    const key = `${request.headers['sec-websocket-key'] ?? ''}${GUID}`
    const accept = createHash('sha1').update(key).digest('base64')
    if (!pods.has(name)) return void socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n`,
    )
    void serveExec(engine, { name, command: searchParams.getAll('command'), socket, head })
  })
  const port = await listenOnLoopback(server)
  return {
    access: {
      server: `http://127.0.0.1:${port}`,
      namespace: 'sandboxes',
      ca: undefined,
      skipsVerification: false,
      serverName: undefined,
      credentials: async () => ({}),
    },
    requests,
    refuse: (what, status, body) => void refusals.set(what, { status, body }),
    async close() {
      for (const name of pods.keys()) {
        await engine.docker
          .getContainer(name)
          .remove({ force: true, v: true })
          .catch(() => undefined)
      }
      server.closeAllConnections()
      server.close()
      await rm(volumes, { recursive: true, force: true })
    },
  }
}

function refusal(code: number, reason: string, message: string): [number, object] {
  return [code, { kind: 'Status', status: 'Failure', code, reason, message }]
}

function bytesOf(quantity: string): number {
  return Number.parseInt(quantity, 10) * (quantity.endsWith('Gi') ? 1024 ** 3 : 1024 ** 2)
}

interface ExecInput {
  name: string
  command: string[]
  socket: Duplex
  head: Buffer
}

/** One exec over the channels of `v5.channel.k8s.io`. */
async function serveExec(engine: Engine, { name, command, socket, head }: ExecInput): Promise<void> {
  const send = (channel: number, payload: Buffer | string): void => {
    if (!socket.destroyed) socket.write(frame(2, Buffer.concat([Buffer.of(channel), Buffer.from(payload)])))
  }
  const finish = (status: object): void => {
    send(3, JSON.stringify(status))
    if (!socket.destroyed) socket.end(frame(8, Buffer.from([0x03, 0xe8])))
  }
  socket.on('error', () => undefined)
  let received = head
  const pending: Buffer[] = []
  let stdin: Duplex | null = null
  const take = (): void => {
    for (let next = parseFrame(received); next !== null; next = parseFrame(received)) {
      received = received.subarray(next.bytes)
      if (next.opcode === 8) return void socket.end(frame(8, next.payload))
      if (next.opcode !== 2 || next.payload[0] !== 0) continue
      const bytes = Buffer.from(next.payload.subarray(1))
      if (stdin === null) pending.push(bytes)
      else stdin.write(bytes)
    }
  }
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    take()
  })
  socket.on('close', () => stdin?.destroy())
  try {
    const exec = await engine.docker.getContainer(name).exec({
      Cmd: command,
      User: 'root',
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: false,
    })
    stdin = await exec.start({ hijack: true, stdin: true })
    for (const bytes of pending) stdin.write(bytes)
    stdin.on(
      'data',
      createDemultiplexer((kind, payload) => send(kind === 'stdout' ? 1 : 2, payload)),
    )
    stdin.on('error', () => undefined)
    stdin.on('close', () => {
      void exec.inspect().then(
        ({ ExitCode: code }) =>
          finish(
            code === 0
              ? { status: 'Success' }
              : { status: 'Failure', details: { causes: [{ reason: 'ExitCode', message: String(code) }] } },
          ),
        () => finish({ status: 'Failure', reason: 'InternalError' }),
      )
    })
    take()
  } catch (error) {
    finish({ status: 'Failure', reason: 'InternalError', message: String(error) })
  }
}

/** A server's frame is not masked. */
function frame(opcode: number, payload: Buffer): Buffer {
  const long = payload.length > 125
  const header = Buffer.alloc(long ? 10 : 2)
  header[0] = 0x80 | opcode
  header[1] = long ? 127 : payload.length
  if (long) header.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([header, payload])
}

/** A client's frame is masked. Null while it is incomplete. */
function parseFrame(bytes: Buffer): { opcode: number; payload: Buffer; bytes: number } | null {
  if (bytes.length < 2) return null
  const short = (bytes[1] ?? 0) & 0x7f
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0
  const start = 2 + extra + 4
  if (bytes.length < start) return null
  const length = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  if (bytes.length < start + length) return null
  const mask = bytes.subarray(start - 4, start)
  const payload = Buffer.from(bytes.subarray(start, start + length))
  for (let at = 0; at < payload.length; at += 1) payload[at] = (payload[at] ?? 0) ^ (mask[at % 4] ?? 0)
  return { opcode: (bytes[0] ?? 0) & 0x0f, payload, bytes: start + length }
}
