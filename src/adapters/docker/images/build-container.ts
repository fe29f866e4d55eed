/** Containers that make or inspect an image. They run none of the task's code, have no network and few capabilities. */
import type Docker from 'dockerode'
import { LABELS, PROJECT } from '../container/labels.ts'

/** The reaper finds an abandoned build container by these labels. */
export function buildLabels(): Record<string, string> {
  return { [LABELS.project]: PROJECT, [LABELS.role]: 'build', [LABELS.created]: String(Date.now()) }
}

/** Clears the build container's labels in commits. Every container of the image would otherwise inherit them, even containers that
 *  are not ours. */
export const WITHOUT_BUILD_LABELS = [LABELS.project, LABELS.role, LABELS.created].map((label) => `LABEL ${label}=""`)

export interface BuildContainerInput {
  name: string
  image: string
  command: string[]
  user: string
  /** The capabilities that the container keeps. */
  capabilities: string[]
  processes: number
  memoryBytes: number
}

export function buildContainerSpec(input: BuildContainerInput): Docker.ContainerCreateOptions {
  const { name, image, command, user, capabilities, processes, memoryBytes } = input
  return {
    name,
    Image: image,
    Entrypoint: [],
    Cmd: command,
    User: user,
    NetworkDisabled: true,
    Labels: buildLabels(),
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      CapAdd: capabilities,
      SecurityOpt: ['no-new-privileges:true'],
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: processes,
      LogConfig: { Type: 'none', Config: {} },
    },
  }
}
