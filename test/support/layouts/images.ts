/** Images of the layout tasks, built from the sandbox base image without a network. */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { packTar, type TarEntry } from 'modern-tar'
import { ensureBaseImage } from '../../../src/adapters/docker/images/base-image.ts'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { buildTaskImage, imageExists } from '../../../src/adapters/docker/images/images.ts'
import { sha256Hex } from '../../../src/platform/hash.ts'

const CONDA = '/opt/miniconda3'
const ENVIRONMENT = `${CONDA}/envs/testbed`

/** Imitates only the effect of `conda activate` on a shell. */
const ACTIVATE = `conda() {
  if [ "$1" != activate ]; then
    echo "conda: only activate is known here, not $1" >&2
    return 2
  fi
  if [ ! -d "${CONDA}/envs/$2" ]; then
    echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2
    return 1
  fi
  export CONDA_DEFAULT_ENV="$2" CONDA_PREFIX="${CONDA}/envs/$2" CONDA_SHLVL=1
  export PATH="$CONDA_PREFIX/bin:$PATH"
}
`

/** A virtual environment over the base image's Python: pytest comes from the base image, the module `bedrock` only from here. */
const FILES: Record<string, string> = {
  [`${CONDA}/etc/profile.d/conda.sh`]: ACTIVATE,
  [`${CONDA}/bin/activate`]: `. ${CONDA}/etc/profile.d/conda.sh\n`,
  [`${ENVIRONMENT}/pyvenv.cfg`]: 'home = /usr/bin\ninclude-system-site-packages = true\n',
  [`${ENVIRONMENT}/bin/pytest`]: `#!${ENVIRONMENT}/bin/python\nimport sys\n\nimport pytest\n\nsys.exit(pytest.main())\n`,
  [`${ENVIRONMENT}/lib/python3.11/site-packages/bedrock.py`]:
    '"""What only the activated environment has."""\n\n\ndef add_up(numbers):\n    return sum(numbers)\n',
  '/root/.bashrc': `source ${CONDA}/etc/profile.d/conda.sh && conda activate testbed\n`,
}

/** Programs of the official images that the base image lacks: the last attempt to apply a patch uses this one. */
const HOST_PROGRAMS = ['/usr/bin/patch']

/** The base image of tasks in the conda layout; built once for each content. */
export async function ensureCondaImage({ engine, cacheDir }: { engine: Engine; cacheDir: string }): Promise<string> {
  const base = await ensureBaseImage({ engine, cacheDir, log: () => undefined })
  const tar = await condaTar()
  const image = `longhaul-test/layout-conda:${sha256Hex(tar).slice(0, 12)}`
  if (!(await imageExists({ engine, image }))) {
    await buildTaskImage({ engine, base: base.tag, tag: image, repoTar: tar, repoDir: '/', labels: {} })
  }
  return image
}

export function hasHostPrograms(): boolean {
  return HOST_PROGRAMS.every((path) => existsSync(path))
}

async function condaTar(): Promise<Uint8Array> {
  const programs = hasHostPrograms() ? HOST_PROGRAMS : []
  return packTar([
    ...Object.entries(FILES).map(([path, text]) => fileEntry(path, Buffer.from(text))),
    {
      header: {
        ...OWNER,
        name: entryName(`${ENVIRONMENT}/bin/python`),
        type: 'symlink',
        linkname: '/usr/bin/python3',
        size: 0,
        mode: 0o777,
      },
    },
    ...programs.map((path) => fileEntry(path, readFileSync(realpathSync(path)))),
  ])
}

const OWNER = { uid: 0, gid: 0, mtime: new Date(0) } as const

function fileEntry(path: string, body: Uint8Array): TarEntry {
  return { header: { ...OWNER, name: entryName(path), type: 'file', size: body.byteLength, mode: 0o755 }, body }
}

/** Relative to the root. */
function entryName(path: string): string {
  return path.slice(1)
}
