import { execFileSync } from 'node:child_process'

export interface GpuDevice {
  name: string
  count: number
  driver: string
}

/** Null if the driver reports no GPU; the bench then runs dry. */
export function findGpu(): GpuDevice | null {
  try {
    const text = execFileSync('nvidia-smi', ['--query-gpu=name,driver_version', '--format=csv,noheader'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const lines = text.split('\n').filter((line) => line.trim() !== '')
    const [name = '', driver = ''] = (lines[0] ?? '').split(',').map((word) => word.trim())
    return name === '' ? null : { name, count: lines.length, driver }
  } catch {
    return null
  }
}

/** The device's name in the state of pieces. */
export function describeDevice(device: GpuDevice | null): string {
  return device === null ? 'no GPU: dry' : `${device.count} × ${device.name}`
}
