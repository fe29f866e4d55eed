/**
 * The images of the workers, built here without an engine's help, loaded into the engine of the stack, and run as they run on a cluster:
 * as the user 1000, without capabilities, on a read-only root. All four roles together play an evaluation.
 */
import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { chown, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Container } from 'dockerode'
import { type BuiltImage, buildImages, type Target, TARGETS } from '../../infra/images/build.ts'
import { debianComponents, type Bom, type Component } from '../../infra/images/sbom.ts'
import { packFolder, USER } from '../../infra/images/layers.ts'
import type { Engine } from '../../src/adapters/docker/engine/engine.ts'
import { runCommand } from '../../src/platform/run-command.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { smallKubectl } from '../support/delivery/small-kubectl.ts'
import { freePort } from '../support/loopback.ts'
import { eventually, STORY_MS } from '../support/hang.ts'
import { type OwnPlace, prepareOwnNamespace } from '../support/own-namespace.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'

const never = new AbortController().signal
const REPOSITORY = `longhaul-test-${process.pid}`

test('a layer depends only on its content, and its files have the requested owners', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-layers-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  const make = async (name: string) => {
    const [folder, blobs] = [join(root, name), join(root, `${name}-blobs`)]
    await mkdir(join(folder, 'var/own'), { recursive: true })
    await mkdir(blobs)
    await writeFile(join(folder, 'var/text'), 'text', { mode: 0o600 })
    return packFolder({ folder, owned: ['var/own'], blobs, says: 'a layer' })
  }
  const [first, second] = [await make('first'), await make('second')]
  assert.deepEqual(second, first)
  const blob = join(root, 'first-blobs', first.digest.slice('sha256:'.length))
  assert.equal((await stat(blob)).size, first.size)
  const listed = await runCommand({
    command: 'tar',
    args: ['--list', '--verbose', '--numeric-owner', '--gzip', '--file', blob],
    timeoutMs: 60_000,
  })
  assert.match(listed.stdout, /^-rw-r--r-- 0\/0 .* \.\/var\/text$/m)
  assert.match(listed.stdout, new RegExp(`^drwxr-xr-x ${USER}/${USER} .* \\./var/own/$`, 'm'))
})

test('the bill of materials lists only installed Debian packages, as package URLs', () => {
  const status = [
    'Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u10\nDescription: GNU\n more',
    'Package: old\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1:2.0',
    'Package: g++\nStatus: install ok installed\nArchitecture: all\nVersion: 4:12.2.0-3\n',
  ].join('\n\n')
  assert.deepEqual(
    debianComponents(status).map(({ purl }) => purl),
    ['pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64', 'pkg:deb/debian/g%2B%2B@4%3A12.2.0-3?arch=all'],
  )
})

test('the Dockerfile has no base of its own, ends each target as the image user and matches the build here', async () => {
  const folder = join(import.meta.dirname, '../../infra')
  const text = await readFile(join(folder, 'images/worker/Dockerfile'), 'utf8')
  const stages = new Map<string, { base: string; user: string | null }>()
  let last = ''
  for (const [, word = '', rest = ''] of text.matchAll(/^(FROM|USER) (.*)$/gm)) {
    if (word === 'USER') stages.set(last, { base: stages.get(last)?.base ?? '', user: rest })
    else {
      const [, base = '', name = ''] = /^(\S+) AS (\S+)$/.exec(rest) ?? []
      assert.ok(stages.has(base) || /^\$\{(?:NODE|DEBIAN|KUBECTL)_IMAGE\}$/.test(base), rest)
      stages.set(name, { base, user: null })
      last = name
    }
  }
  for (const target of TARGETS) assert.equal(stages.get(target)?.user, `${USER}:${USER}`, target)
  const bases = [...text.matchAll(/^ARG (\w+_IMAGE)(.*)$/gm)].map(([, name, given]) => `${name}${given}`)
  assert.deepEqual(bases, ['NODE_IMAGE', 'DEBIAN_IMAGE', 'KUBECTL_IMAGE=scratch'])
  assert.doesNotMatch(text, /^ARG .*(?:TOKEN|PASSWORD|SECRET)/m)
  // The same variables, and the same flags of the compiler: the name of the program has their hash.
  const build = await readFile(join(folder, 'images/build.ts'), 'utf8')
  for (const name of ['LONGHAUL_CACHE', 'LONGHAUL_PYTHON', 'PYTHONPATH', 'PYTHONDONTWRITEBYTECODE', 'HOME']) {
    assert.match(text, new RegExp(`^ENV .*\\b${name}=`, 'm'), name)
    assert.match(build, new RegExp(`\\b${name}: `), name)
  }
  const source = await readFile(join(folder, '../src/adapters/docker/sandbox/runner-volume.ts'), 'utf8')
  const flags = [...(/^const FLAGS = \[(.*)\]$/m.exec(source)?.[1] ?? '').matchAll(/'([^']+)'/g)].map(
    ([, flag]) => flag,
  )
  assert.ok(flags.length > 3)
  assert.ok(text.includes(`gcc ${flags.join(' ')} -o`), flags.join(' '))
})

test('a usage error is refused before anything is built', async () => {
  const build = join(import.meta.dirname, '../../infra/images/build.ts')
  for (const [args, says] of [
    [[], /^error: Expected --output FOLDER$/m],
    [
      ['--output', '/nowhere', '--target', 'gpu'],
      /^error: Expected --target to be one of worker, sandbox, trainer, got gpu$/m,
    ],
  ] as const) {
    const { exitCode, tail } = await runCommand({
      command: process.execPath,
      args: [build, ...args],
      timeoutMs: 120_000,
    })
    assert.equal(exitCode, 1)
    assert.match(tail, says)
  }
})

describe('images of the workers', { skip: needsStack, timeout: STORY_MS }, () => {
  let world: PipelineWorld
  let engine: Engine
  let scratch: string
  let built: Record<Target, BuiltImage>
  let place: OwnPlace
  const containers: Container[] = []

  before(
    async () => {
      world = await attachWorld()
      engine = world.engine
      scratch = await mkdtemp(join(tmpdir(), 'longhaul-worker-images-'))
      const python = join(scratch, 'python')
      await makeSmallEnvironment(python)
      const images = await buildImages({
        targets: ['worker', 'sandbox', 'trainer'],
        output: join(scratch, 'images'),
        repository: REPOSITORY,
        tag: '0',
        cacheDir: stackPaths().cacheDir,
        python,
        kubectl: await smallKubectl(scratch),
        log: (line) => console.error(`images  ${line}`),
        signal: never,
      })
      built = Object.fromEntries(images.map((image) => [image.target, image])) as Record<Target, BuiltImage>
      for (const { archive } of images) {
        await load(archive)
        await rm(archive)
      }
      place = await prepareOwnNamespace('images', scratch)
      await mkdir(join(scratch, 'artifacts'))
      // As the volume of a cluster is given to the group of the pods.
      for (const folder of [scratch, join(scratch, 'artifacts')]) await chown(folder, USER, USER)
    },
    { timeout: STORY_MS },
  )

  after(async () => {
    await Promise.all(containers.map((container) => container.remove({ force: true }).catch(() => undefined)))
    for (const { image } of Object.values(built ?? {}))
      await engine.docker
        .getImage(image)
        .remove()
        .catch(() => undefined)
    await place?.connection.close()
    await world?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  test('each runs as an unprivileged user with a read-only root', async () => {
    for (const { image } of Object.values(built)) {
      const { Config } = await engine.docker.getImage(image).inspect()
      assert.equal(Config.User, '1000:1000')
      assert.doesNotMatch(JSON.stringify(Config), /TOKEN|PASSWORD|SECRET/)
      assert.equal((await run(image, ['--version'])).trim(), '0.1.0')
      const facts = await run(image, ['-c', 'id -u; grep -E "^(CapEff|NoNewPrivs)" /proc/self/status; touch /opt/x'], {
        Entrypoint: ['sh'],
        mayFail: true,
      })
      // Two streams, read as they come.
      assert.match(facts, /^1000$/m)
      assert.match(facts, /CapEff:\s+0{16}/)
      assert.match(facts, /NoNewPrivs:\s+1/)
      assert.match(facts, /touch: .*Read-only file system/)
    }
  })

  test('none contains sources, tests, development packages or personal files', async () => {
    const text = await run(built.worker.image, ['-c', 'cd /opt/longhaul && ls -A && ls -A node_modules/@temporalio'], {
      Entrypoint: ['sh'],
    })
    const names = text.split('\n')
    for (const name of ['bin', 'dist', 'infra', 'recipes', 'node_modules', 'worker'])
      assert.ok(names.includes(name), name)
    for (const name of ['src', 'test', 'out', '.git', '.env', 'testing', 'bench'])
      assert.ok(!names.includes(name), name)
  })

  test('the bill of materials of each image is a valid CycloneDX document of its content', async () => {
    for (const target of ['worker', 'sandbox', 'trainer'] as const) {
      const bom = JSON.parse(await readFile(built[target].sbom, 'utf8')) as Bom
      checkDocument(bom)
      assert.equal(bom.metadata.component['bom-ref'], built[target].digest)
      const purls = (prefix: string): string[] =>
        bom.components.filter(({ purl }) => purl.startsWith(prefix)).map(({ name, version }) => `${name} ${version}`)
      const debian = await run(built[target].image, ['-W', '-f', '${Package} ${Version}\n'], {
        Entrypoint: ['dpkg-query'],
      })
      assert.deepEqual(purls('pkg:deb/').toSorted(), lines(debian))
      // Each package.json with a name and a version, that is no part of a package's inside.
      const found = await run(built[target].image, ['--eval', LIST_PACKAGES], { Entrypoint: ['node'] })
      assert.deepEqual([...new Set(purls('pkg:npm/'))].toSorted(), lines(found))
      assert.ok(lines(found).length > 150, `${lines(found).length} packages`)
      assert.deepEqual(purls('pkg:generic/node'), [`node ${process.versions.node}`])
      assert.deepEqual(purls('pkg:pypi/'), target === 'trainer' ? ['Small.Package 1.2+cpu'] : [])
    }
  })

  test('the trainer’s image contains its Python, the trainer and kubectl', async () => {
    const said = await run(
      built.trainer.image,
      [
        '-c',
        '"$LONGHAUL_PYTHON" -c "import sys, small, longhaul_trainer; print(sys.prefix, small.ANSWER)"; kubectl version',
      ],
      { Entrypoint: ['sh'] },
    )
    assert.deepEqual(said.split('\n').slice(0, 2), [
      '/opt/longhaul-python 42',
      '{"clientVersion":{"gitVersion":"v0.0.0-small"}}',
    ])
  })

  test('longhaul doctor finds in the image what a control worker needs', async () => {
    const said = await run(built.worker.image, ['doctor', '--role', 'control', '--json'], { HostConfig: networked() })
    const { level, checks } = JSON.parse(said) as { level: string; checks: { level: string }[] }
    assert.ok(checks.length > 5)
    assert.notEqual(level, 'fail', said)
  })

  test('workers of all roles play an evaluation, report readiness and end in order', async () => {
    const roles = { control: 'worker', artifacts: 'worker', trainer: 'trainer', sandbox: 'sandbox' } as const
    const socket = (world.stack.dockerHost ?? '').replace('unix://', '')
    const workers = new Map<string, { container: Container; port: number }>()
    for (const [role, target] of Object.entries(roles)) {
      const port = await freePort()
      const isHost = role === 'sandbox'
      const container = await create(built[target].image, ['worker', '--role', role], {
        HostConfig: {
          ...networked(),
          ...(isHost ? { GroupAdd: [String((await stat(socket)).gid)] } : {}),
          Binds: [`${scratch}:${scratch}`, ...(isHost ? [`${socket}:/run/engine/docker.sock`] : [])],
        },
        Env: [`LONGHAUL_HEALTH_ADDRESS=127.0.0.1:${port}`, `LONGHAUL_HOST_ID=images-${process.pid}`]
          // Neither a compiler nor debootstrap is there: the runner and the base image come with the image.
          .concat(isHost ? ['DOCKER_HOST=unix:///run/engine/docker.sock'] : []),
      })
      await container.start()
      workers.set(role, { container, port })
    }
    for (const [role, { container, port }] of workers) {
      await eventually(async () => {
        const { State } = await container.inspect()
        assert.equal(State.Running, true, `${role} has ended: ${await logs(container)}`)
        const { status } = await fetch(`http://127.0.0.1:${port}/ready`)
        assert.equal(status, 200, role)
      })
    }
    await run(
      built.worker.image,
      ['evaluate', '--recipe', 'mini', '--policy', 'base', '--run', 'in-images', '-c', 'evaluate.tasks=2', '--json'],
      { HostConfig: networked() },
    )
    // One attempt at each of two tasks, and the visibility of a server may be late.
    await eventually(async () => {
      const ended: string[] = []
      const query = `WorkflowType = 'episode' AND ExecutionStatus = 'Completed'`
      for await (const { workflowId } of place.connection.client.workflow.list({ query })) ended.push(workflowId)
      assert.equal(ended.length, 2, ended.join())
    })

    for (const { container } of workers.values()) void container.stop({ t: 60 }).catch(() => undefined)
    for (const [role, { container }] of workers) {
      const { StatusCode } = (await container.wait()) as { StatusCode: number }
      assert.equal(StatusCode, 0, `${role}: ${await logs(container)}`)
    }
  })

  function networked() {
    // The engine of the tests has no network of its own.
    return { NetworkMode: 'host', Binds: [`${scratch}:${scratch}`] }
  }

  type Options = { Entrypoint?: string[]; Env?: string[]; HostConfig?: object; mayFail?: boolean }

  async function create(image: string, command: string[], { Entrypoint, Env = [], HostConfig = {} }: Options) {
    // By the names that a cluster's workers have.
    const passed = {
      TEMPORAL_ADDRESS: place.environment['LONGHAUL_TEMPORAL_ADDRESS'],
      TEMPORAL_NAMESPACE: place.environment['LONGHAUL_NAMESPACE'],
      LONGHAUL_ARTIFACTS: place.environment['LONGHAUL_ARTIFACTS'],
      LONGHAUL_POLICY_URL: place.environment['LONGHAUL_POLICY_URL'],
    }
    const container = await engine.docker.createContainer({
      Image: image,
      Cmd: command,
      ...(Entrypoint === undefined ? {} : { Entrypoint }),
      Env: [...Object.entries(passed).map(([name, value]) => `${name}=${value ?? ''}`), ...Env],
      HostConfig: {
        NetworkMode: 'none',
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
        Tmpfs: { '/tmp': 'mode=1777', '/var/lib/longhaul': `uid=${USER},gid=${USER}` },
        ...HostConfig,
      },
    })
    containers.push(container)
    return container
  }

  async function run(image: string, command: string[], options: Options = {}): Promise<string> {
    const container = await create(image, command, options)
    await container.start()
    const { StatusCode } = (await container.wait()) as { StatusCode: number }
    const { all, stdout } = await outputs(container)
    await container.remove({ force: true })
    if (options.mayFail === true) return all
    assert.equal(StatusCode, 0, `${command.join(' ')}: ${all}`)
    return stdout
  }

  async function load(archive: string): Promise<void> {
    const progress = await engine.docker.loadImage(createReadStream(archive))
    await new Promise<void>((resolve, reject) => {
      engine.docker.modem.followProgress(progress, (error) => (error === null ? resolve() : reject(error)))
    })
  }
})

async function logs(container: Container): Promise<string> {
  return (await outputs(container)).all.slice(-3_000)
}

/** The engine frames what comes from a container: stream, three zeros, length. */
async function outputs(container: Container): Promise<{ all: string; stdout: string }> {
  const bytes = await container.logs({ stdout: true, stderr: true, follow: false })
  let [all, stdout] = ['', '']
  for (let at = 0; at + 8 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at + 4)
    const text = bytes.subarray(at + 8, at + 8 + length).toString('utf8')
    all += text
    if (bytes[at] === 1) stdout += text
    at += 8 + length
  }
  return { all, stdout }
}

const LIST_PACKAGES = `
  const fs = require('node:fs'), path = require('node:path')
  const found = new Set(), root = '/opt/longhaul'
  const add = (folder) => {
    const { name, version } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'))
    found.add(name + ' ' + version)
    visit(path.join(folder, 'node_modules'))
  }
  const visit = (folder) => {
    if (!fs.existsSync(folder)) return
    for (const entry of fs.readdirSync(folder).filter((name) => !name.startsWith('.'))) {
      const below = path.join(folder, entry)
      if (entry.startsWith('@')) fs.readdirSync(below).forEach((name) => add(path.join(below, name)))
      else add(below)
    }
  }
  add(root)
  console.log([...found].join('\\n'))`

function lines(text: string): string[] {
  return [...new Set(text.split('\n').filter((line) => line !== ''))].toSorted()
}

/** What the schema of CycloneDX 1.5 asks of the parts that are written here. */
function checkDocument(bom: Bom): void {
  assert.deepEqual([bom.bomFormat, bom.specVersion, bom.version], ['CycloneDX', '1.5', 1])
  assert.match(bom.serialNumber, /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
  assert.ok(!Number.isNaN(Date.parse(bom.metadata.timestamp)))
  const all: Component[] = [bom.metadata.component, ...bom.components]
  const types = ['application', 'library', 'container', 'operating-system']
  for (const component of all) {
    assert.ok(types.includes(component.type), JSON.stringify(component))
    assert.ok(component.name !== '' && component.version !== '', JSON.stringify(component))
    assert.match(component.purl, /^pkg:(?:npm|deb|pypi|generic|oci)\/[^\s@]+(?:@[^\s@]+)?/)
  }
  const refs = all.map((component) => component['bom-ref'])
  assert.equal(new Set(refs).size, refs.length, 'two components have one reference')
  for (const { ref, dependsOn = [] } of bom.dependencies) {
    for (const name of [ref, ...dependsOn]) assert.ok(refs.includes(name), `no component is called ${name}`)
  }
  assert.equal(new Set(bom.dependencies.map(({ ref }) => ref)).size, bom.dependencies.length)
}

/** The trainer's own has six gigabytes; what is tried here is how an environment is brought along. */
async function makeSmallEnvironment(folder: string): Promise<void> {
  const packages = join(folder, 'lib/python3.11/site-packages')
  await mkdir(join(packages, 'small-1.2.dist-info'), { recursive: true })
  await writeFile(join(packages, 'small.py'), 'ANSWER = 42\n')
  await writeFile(
    join(packages, 'small-1.2.dist-info/METADATA'),
    'Metadata-Version: 2.1\nName: Small.Package\nVersion: 1.2+cpu\n',
  )
}
