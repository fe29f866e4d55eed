import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

export interface ExecStream {
  /** The connection itself. It is never half-closed, because engines truncate the output when the input is closed. */
  socket: Duplex
}

export interface OpenExecInput {
  container: Container
  command: string[]
  /** `UID:GID` */
  user: string
}

export async function openExec({ container, command, user }: OpenExecInput): Promise<ExecStream> {
  const exec = await container.exec({
    Cmd: command,
    User: user,
    // The default is the container's working directory, which the agent may have removed.
    WorkingDir: '/',
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
  })
  return { socket: await exec.start({ hijack: true, stdin: true }) }
}

/** Attaches to the input and output of the main process, even before it runs. */
export async function attach(container: Container): Promise<Duplex> {
  const stream = await container.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true })
  return stream as Duplex
}

export type StreamKind = 'stdout' | 'stderr'

/** Splits the engine's multiplexed stream (8-byte header: kind, three zeros, big-endian length) into its payloads, in order of
 *  arrival. A chunk may hold several frames or part of one. */
export function createDemultiplexer(onPayload: (kind: StreamKind, payload: Buffer) => void): (chunk: Buffer) => void {
  let header = Buffer.alloc(0)
  let left = 0
  let kind: StreamKind = 'stdout'
  return (chunk) => {
    let rest = chunk
    while (rest.length > 0) {
      if (left === 0) {
        const wanted = 8 - header.length
        header = Buffer.concat([header, rest.subarray(0, wanted)])
        rest = rest.subarray(wanted)
        if (header.length < 8) return
        kind = header[0] === 2 ? 'stderr' : 'stdout'
        left = header.readUInt32BE(4)
        header = Buffer.alloc(0)
        continue
      }
      const payload = rest.subarray(0, left)
      rest = rest.subarray(payload.length)
      left -= payload.length
      onPayload(kind, payload)
    }
  }
}
