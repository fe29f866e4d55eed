import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'

/** The pid of this process's child that runs a program. @throws if there is none */
export function childProcess(program: string): number {
  const path = realpathSync(program)
  const pid = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((candidate) => runs(candidate, path))
  if (pid === undefined) throw new Error(`Expected a child of this process that runs ${path}`)
  return pid
}

/** User and system time of a process and its threads, in seconds. */
export function cpuSecondsOf(pid: number): number {
  const fields = statOf(pid)
  const ticksPerSecond = 100
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

function runs(pid: number, path: string): boolean {
  try {
    return Number(statOf(pid)[1]) === process.pid && readlinkSync(`/proc/${pid}/exe`) === path
  } catch {
    // The process has ended meanwhile, or belongs to another user.
    return false
  }
}

/** The fields after the name, which may contain spaces. */
function statOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
}
