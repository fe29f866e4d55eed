import type { Engine } from './engine.ts'

/** Where an engine keeps its images, and what they must be made for. */
export interface EnginePlace {
  /** Stays the same over restarts; tells two engines of one machine apart. */
  id: string
  rootDir: string
  /** As images spell it: `amd64`, `arm64`. */
  architecture: string
}

const places = new WeakMap<Engine, Promise<EnginePlace>>()

/** Asked once: none of it changes while an engine is the same. */
export function enginePlace(engine: Engine): Promise<EnginePlace> {
  const known = places.get(engine)
  if (known !== undefined) return known
  const asked = askPlace(engine)
  places.set(engine, asked)
  asked.catch(() => places.delete(engine))
  return asked
}

async function askPlace({ docker, host }: Engine): Promise<EnginePlace> {
  const info = (await docker.info()) as { ID?: string; DockerRootDir?: string; Architecture?: string }
  return { id: info.ID ?? host, rootDir: info.DockerRootDir ?? '', architecture: imageName(info.Architecture ?? '') }
}

/** The engine reports what the kernel calls the machine. */
function imageName(machine: string): string {
  if (machine === 'x86_64') return 'amd64'
  return machine === 'aarch64' ? 'arm64' : machine
}
