/** Containers that make an image or look into one: they run nothing of a task, reach no network and may do little. */
import type Docker from 'dockerode'
import { LABELS, PROJECT } from '../container/labels.ts'

/** By these the reaper finds one that its maker left behind. */
export function buildLabels(): Record<string, string> {
  return { [LABELS.project]: PROJECT, [LABELS.role]: 'build', [LABELS.created]: String(Date.now()) }
}

/** For commits: the build container's own labels would be inherited by every container of the image, also by foreign ones. */
export const WITHOUT_BUILD_LABELS = [LABELS.project, LABELS.role, LABELS.created].map((label) => `LABEL ${label}=""`)

export interface BuildContainerInput {
  name: string
  image: string
  command: string[]
  user: string
  /** Kept of all that root may do. */
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
