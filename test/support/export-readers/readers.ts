/** The programs for which exports are made, as processes that read Longhaul's files: Harbor's validator, Hugging Face's `datasets`,
 *  pyarrow. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { HANG_MS } from '../hang.ts'
import { findPythonPackages } from '../python-packages.ts'

/** The interpreter with the packages, or why they are missing. They come from the package index once. */
export async function findReaders(): Promise<{ python: string } | { skip: string }> {
  return findPythonPackages({
    lockFile: join(import.meta.dirname, 'export-readers.lock'),
    what: 'Harbor’s validator, datasets and pyarrow, to read exports',
    takes: 'about a minute, 90 MB to fetch',
    name: 'the readers of exports',
    withinMs: 600_000,
    // Harbor requires Python 3.12, but only its models of trajectories are imported, which need just pydantic.
    pipOptions: ['--ignore-requires-python'],
  })
}

/** The JSON that a reader prints. */
export async function readWith<T>(python: string, what: 'atif' | 'datasets' | 'parquet', path: string): Promise<T> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-readers-'))
  try {
    const { stdout } = await promisify(execFile)(python, [join(import.meta.dirname, 'read.py'), what, path], {
      timeout: HANG_MS,
      maxBuffer: 1 << 26,
      env: {
        PATH: process.env['PATH'],
        HOME: home,
        HF_HOME: home,
        HF_HUB_OFFLINE: '1',
        HF_DATASETS_OFFLINE: '1',
        PYTHONUTF8: '1',
        PYTHONDONTWRITEBYTECODE: '1',
      },
    })
    return JSON.parse(stdout) as T
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
