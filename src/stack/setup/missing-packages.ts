import { findEngine } from './engine.ts'
import { findPython } from './python-env.ts'
import { findProgram, readDistribution } from './system-packages.ts'

/** Distribution packages without which a later step could not do its work; asked once, so that apt runs once. */
export async function missingPackages({
  forEngine,
  forPython,
}: {
  forEngine: boolean
  forPython: boolean
}): Promise<string[]> {
  const packages: string[] = []
  if (forEngine) {
    if (findProgram('dockerd') === null && (await findEngine()) === null) {
      // tini is the init helper that the engine gives to containers; Debian ships it apart.
      packages.push('docker.io', 'tini')
    }
    if (findProgram('debootstrap') === null) {
      packages.push('debootstrap')
      if ((await readDistribution()) === 'ubuntu') packages.push('debian-archive-keyring')
    }
    if (findProgram('git') === null) packages.push('git')
    // The runner of sandboxes is one static C program.
    if (['cc', 'gcc', 'clang'].every((compiler) => findProgram(compiler) === null)) packages.push('gcc', 'libc6-dev')
  }
  if (forPython && (await findPython())?.hasVenv !== true) packages.push('python3', 'python3-venv')
  return packages
}
