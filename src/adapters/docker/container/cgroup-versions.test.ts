/**
 * Control groups of both versions. No engine with version 2 runs where these tests are made (its controllers are bound to version 1), so what
 * such engines and kernels say is written down here, in the form in which they say it.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { mayLimitDisk } from './container-spec.ts'
import { type EngineInfo, engineFacts, type Engine } from '../engine/engine.ts'
import { runnerProgram } from '../sandbox/runner-volume.ts'

const ALL_LIMITS = { MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPUSet: true, CpuCfsQuota: true }

/** `/info` of engines, without the fields that Longhaul does not read. */
const ENGINES: { name: string; info: EngineInfo; facts: ReturnType<typeof engineFacts>; countsDisk: boolean }[] = [
  {
    name: '20.10 on version 1, ext4',
    info: {
      ...ALL_LIMITS,
      SecurityOptions: ['name=seccomp,profile=default'],
      CgroupVersion: '1',
      DefaultRuntime: 'runc',
      Driver: 'overlay2',
      DriverStatus: [
        ['Backing Filesystem', 'extfs'],
        ['Supports d_type', 'true'],
      ],
    },
    facts: facts({ seccomp: 'default', cgroupVersion: 1, storageDriver: 'overlay2', backingFilesystem: 'extfs' }),
    countsDisk: false,
  },
  {
    name: '28 on version 2 with systemd, xfs',
    info: {
      ...ALL_LIMITS,
      SecurityOptions: ['name=apparmor', 'name=seccomp,profile=builtin', 'name=cgroupns'],
      CgroupVersion: '2',
      DefaultRuntime: 'runc',
      Driver: 'overlay2',
      DriverStatus: [['Backing Filesystem', 'xfs']],
    },
    facts: facts({ seccomp: 'builtin', cgroupVersion: 2, storageDriver: 'overlay2', backingFilesystem: 'xfs' }),
    countsDisk: true,
  },
  {
    name: '29 with the image store of containerd: its snapshots are not counted',
    info: {
      ...ALL_LIMITS,
      SecurityOptions: ['name=seccomp,profile=builtin', 'name=cgroupns'],
      CgroupVersion: '2',
      DefaultRuntime: 'runc',
      Driver: 'overlayfs',
      DriverStatus: [['driver-type', 'io.containerd.snapshotter.v1']],
    },
    facts: facts({ seccomp: 'builtin', cgroupVersion: 2, storageDriver: 'overlayfs', backingFilesystem: null }),
    countsDisk: false,
  },
  {
    name: 'rootless on version 2 where only memory and pids are delegated',
    info: {
      ...ALL_LIMITS,
      CPUSet: false,
      CpuCfsQuota: false,
      SecurityOptions: ['name=seccomp,profile=builtin', 'name=rootless', 'name=cgroupns'],
      CgroupVersion: '2',
      DefaultRuntime: 'runc',
      Driver: 'fuse-overlayfs',
      DriverStatus: null,
    },
    facts: facts({
      seccomp: 'builtin',
      cgroupVersion: 2,
      storageDriver: 'fuse-overlayfs',
      backingFilesystem: null,
      unenforced: ['cpuset', 'cpu'],
    }),
    countsDisk: false,
  },
]

function facts(changes: Partial<ReturnType<typeof engineFacts>>): ReturnType<typeof engineFacts> {
  const usual = { seccomp: null, cgroupVersion: 1, unenforced: [], defaultRuntime: 'runc', storageDriver: '' } as const
  return { ...usual, unenforced: [], backingFilesystem: null, ...changes }
}

for (const { name, info, facts: expected, countsDisk } of ENGINES) {
  test(`engine ${name}: the limits that it enforces are read from its own info`, () => {
    const found = engineFacts(info)
    assert.deepEqual(found, expected)
    assert.equal(mayLimitDisk({ facts: found } as Engine), countsDisk)
  })
}

const KERNELS = [
  {
    name: 'version 1',
    pids: 'pids/',
    oom: ['memory/memory.oom_control', 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n'],
  },
  {
    name: 'version 2',
    pids: '',
    oom: ['memory.events', 'low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n'],
  },
] as const

for (const { name, pids, oom } of KERNELS) {
  test(`a kernel with ${name}: the runner reads the process limit and kills by the memory limit`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
    const runner = join(folder, 'runner')
    writeFileSync(runner, await runnerProgram(), { mode: 0o700 })
    const write = (file: string, text: string): void => {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), text)
    }
    const say = (limit: string, used: string): string => {
      write(`${pids}pids.max`, `${limit}\n`)
      write(`${pids}pids.current`, `${used}\n`)
      write(oom[0], oom[1])
      return execFileSync(runner, ['counts', folder]).toString()
    }
    try {
      assert.equal(say('64', '20'), 'room\n2\n')
      assert.equal(say('64', '60'), 'full\n2\n')
      assert.equal(say('max', '60000'), 'room\n2\n')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
}
