import type { ContainerInspectInfo, ContainerInspectOptions } from 'dockerode'

import { LonghaulError } from '../../../contracts/errors.ts'
import { wasStartedAgain } from './container-end.ts'
import type { Engine } from '../engine/engine.ts'

const GIB = 1024 ** 3

/** What honest work may fill: who has written more, and finds no room, has made that so. */
const LARGE_BYTES = GIB

/**
 * What a runner says of its sandbox, judged by what the host sees of it. A turn whose processes are gone was ended from inside, unless
 * the container was started anew; a full disk is the host's, unless this container has filled a good part of it.
 */
export async function attributeLoss(engine: Engine, name: string, error: unknown): Promise<unknown> {
  if (!(error instanceof LonghaulError) || !isAnswer(error)) return error
  if (error.code !== 'Sandbox.Ended' && error.code !== 'Sandbox.OutOfDisk') return error
  try {
    const container = engine.docker.getContainer(name)
    if (error.code === 'Sandbox.Ended') {
      const { State: state } = await container.inspect()
      return wasStartedAgain(state) ? as('Sandbox.Lost', error) : error
    }
    // Their types do not have what is only told on request.
    const { SizeRw: written = 0, HostConfig: settings } = (await container.inspect({
      size: true,
    } as ContainerInspectOptions)) as ContainerInspectInfo & { SizeRw?: number }
    const limit = /^(\d+)g$/i.exec(settings.StorageOpt?.['size'] ?? '')?.[1]
    const large = limit === undefined ? LARGE_BYTES : Math.min(LARGE_BYTES, (Number(limit) * GIB) / 2)
    return written >= large ? as('Sandbox.Ended', error) : error
  } catch {
    // An engine that cannot be asked rules nothing out.
    return error.code === 'Sandbox.Ended' ? as('Sandbox.Lost', error) : error
  }
}

/** Of the runner itself, not of the way to it. */
function isAnswer({ details }: LonghaulError): boolean {
  return 'answer' in details
}

function as(code: 'Sandbox.Lost' | 'Sandbox.Ended', { message, details }: LonghaulError): LonghaulError {
  return new LonghaulError({ code, message, details })
}
