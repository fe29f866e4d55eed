/** The chart of the workers, by the real Helm: what it renders, against the types of the Kubernetes API and against our own code. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { TARGETS } from '../../infra/images/build.ts'
import { USER } from '../../infra/images/layers.ts'
import { ENVIRONMENT } from '../../src/cli/arguments/environment-example.ts'
import { DEPLOYMENT, QUEUES } from '../../src/contracts/workflow-ids.ts'
import { runCommand } from '../../src/platform/run-command.ts'
import { hostIdentity } from '../../src/platform/processes.ts'
import { packageFile } from '../../src/stack/paths.ts'
import { goProgram } from '../../src/stack/setup/go-build.ts'
import { ROLES } from '../../src/workers/run-worker.ts'
import { readWorkerEnvironment } from '../../src/workers/worker-environment.ts'
import { callTool, findHelm } from '../support/delivery/tools.ts'
import { decodeStrictly, withoutGo } from '../support/kubernetes-types.ts'

const CHART = packageFile('infra/helm/longhaul')
const found = await findHelm()
const skip = 'reason' in found ? found.reason : false
const helm = 'program' in found ? found.program : ''
const keda = 'program' in found ? await kedaDefinitions() : 'without Helm'

interface Values {
  [key: string]: unknown
}

interface Container {
  name: string
  image: string
  args?: string[]
  command?: string[]
  env?: { name: string; value?: string; valueFrom?: object }[]
  envFrom?: { configMapRef?: { name: string }; secretRef?: { name: string } }[]
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[]
  securityContext: Record<string, unknown>
  ports?: { name: string; containerPort: number }[]
  readinessProbe?: { httpGet: { path: string; port: string } }
  lifecycle?: { preStop: { exec: { command: string[] } } }
}

interface PodSpec {
  serviceAccountName: string
  automountServiceAccountToken: boolean
  terminationGracePeriodSeconds: number
  securityContext: Record<string, unknown>
  initContainers?: Container[]
  containers: Container[]
  volumes: ({ name: string } & Record<string, unknown>)[]
}

interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels: Record<string, string> }
  data?: Record<string, string>
  rules?: unknown[]
  spec: {
    replicas?: number
    selector?: { matchLabels: Record<string, string> }
    template: { metadata: { labels: Record<string, string> }; spec: PodSpec }
    podSelector?: { matchLabels: Record<string, string> }
    ingress?: unknown[]
    egress?: { ports?: { port: number }[] }[]
    scaleTargetRef?: { kind: string; name: string }
    triggers?: { type: string; metadata: Record<string, string>; authenticationRef?: { name: string } }[]
    maxUnavailable?: unknown
  }
}

/** The least that a person says. */
const LEAST: Values = {
  temporal: { address: 'temporal-frontend:7233' },
  artifacts: { location: 's3://lab-records/longhaul' },
  policyServer: { url: 'http://engines:8000' },
  sandbox: { engine: { kind: 'pod', pod: { image: 'docker:29-dind' } } },
}

const SETS: Record<string, Values> = {
  'the least': LEAST,
  'Temporal Cloud, a key for payloads, new code, scaling': {
    ...LEAST,
    temporal: {
      address: 'prod.acct.tmprl.cloud:7233',
      namespace: 'prod.acct',
      apiKey: { name: 'temporal-cloud', key: 'api-key' },
      codecKeys: { name: 'codec', key: 'codec-keys' },
    },
    artifacts: {
      location: 's3://lab-records/longhaul',
      endpoint: 'https://s3.example.org:9000',
      region: 'eu-west-1',
      secret: 'bucket',
      claim: { name: 'weights', mountPath: '/shared' },
      weights: '/shared/weights',
    },
    policyServer: { url: 'https://engines.example.org', apiKey: { name: 'engines', key: 'key' } },
    image: {
      repository: 'registry.example.org/lab/longhaul',
      tag: '0.1.0-3',
      digests: { trainer: `sha256:${'a'.repeat(64)}` },
      pullSecrets: ['registry'],
    },
    control: { buildId: '2026-11-25-1a2b3c4', autoscaling: { enabled: true, min: 2, max: 8, queueSize: 50 } },
    artifactsWorker: { autoscaling: { enabled: true, min: 1, max: 4, queueSize: 8 } },
    sandbox: {
      engine: { kind: 'pod', pod: { image: 'docker:29-dind' } },
      cpus: 16,
      memoryGiB: 64,
      autoscaling: { enabled: true, min: 1, max: 10, queueSize: 8 },
    },
    recipes: { 'mine.yaml': 'seed: 1\n' },
    env: { LONGHAUL_HUB_URL: 'https://hub.example.org' },
    envFromSecrets: ['chat-keys'],
    networkPolicy: { metricsFrom: [{ namespaceSelector: { matchLabels: { team: 'metrics' } } }] },
  },
  'client certificates, a shared directory, the engines of nodes, jobs elsewhere': {
    ...LEAST,
    temporal: { address: 'temporal.lab:7233', tls: { secret: 'temporal-client', serverName: 'temporal.internal' } },
    artifacts: { location: '/shared/longhaul', claim: { name: 'longhaul-artifacts', mountPath: '/shared' } },
    trainer: { jobs: { enabled: true, namespace: 'training' } },
    sandbox: {
      engine: { kind: 'node', node: { socket: '/run/docker.sock', group: 998 } },
      nodeSelector: { 'longhaul/sandboxes': 'true' },
      tolerations: [{ key: 'sandboxes', operator: 'Exists' }],
    },
    ports: { health: 9470, metrics: 0 },
    networkPolicy: { enabled: false },
  },
  'sandboxes and graders as pods, without an engine, scaling': {
    ...LEAST,
    sandbox: {
      engine: { kind: 'none' },
      pods: { namespace: 'agents', runtimeClass: 'gvisor' },
      cpus: 64,
      memoryGiB: 256,
      autoscaling: { enabled: true, min: 1, max: 3, queueSize: 8 },
    },
  },
  'hosts of sandboxes alone': {
    ...LEAST,
    control: { enabled: false },
    artifactsWorker: { enabled: false },
    trainer: { enabled: false },
  },
}

describe('the chart', { skip }, () => {
  let home: string
  const rendered = new Map<string, Manifest[]>()

  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'longhaul-chart-'))
    for (const [name, values] of Object.entries(SETS)) rendered.set(name, await template(values))
  })

  after(() => rm(home, { recursive: true, force: true }))

  async function ask(args: string[], values: Values) {
    const file = join(home, `values-${Math.random().toString(36).slice(2)}.yaml`)
    await writeFile(file, stringify(values))
    return callTool({ program: helm, args: [...args, CHART, '--values', file], home })
  }

  async function template(values: Values): Promise<Manifest[]> {
    const { exitCode, stdout, tail } = await ask(['template', 'lab', '--namespace', 'longhaul'], values)
    assert.equal(exitCode, 0, tail)
    return parseAllDocuments(stdout)
      .map((document) => document.toJS() as Manifest | null)
      .filter((manifest) => manifest !== null)
  }

  const pods = (manifests: Manifest[]): Map<string, Manifest> =>
    new Map(
      manifests
        .filter(({ kind }) => ['Deployment', 'StatefulSet', 'DaemonSet'].includes(kind))
        .map((manifest) => [manifest.metadata.labels['app.kubernetes.io/component'] ?? '', manifest]),
    )
  const of = (name: string): Manifest[] => rendered.get(name) ?? []
  const everywhere = Object.keys(SETS)

  for (const [name, values] of Object.entries(SETS)) {
    test(`${name}: helm lint reports no error`, async () => {
      const { exitCode, tail } = await ask(['lint', '--strict'], values)
      assert.equal(exitCode, 0, tail)
    })

    test(`${name}: the Kubernetes API knows each object and all of its fields`, {
      skip: withoutGo,
    }, async () => {
      const native = of(name).filter(({ apiVersion }) => !apiVersion.startsWith('keda.sh/'))
      assert.ok(native.length >= 4, `${native.length} objects`)
      const answers = await decodeStrictly(native)
      assert.deepEqual(
        answers.map((answer, index) => `${native[index]?.kind} ${native[index]?.metadata.name}: ${answer}`),
        native.map(({ kind, metadata }) => `${kind} ${metadata.name}: ok`),
      )
    })
  }

  test('objects of KEDA have only fields that its definitions know', { skip: typeof keda === 'string' && keda }, () => {
    const definitions = keda as Map<string, Schema>
    const objects = everywhere.flatMap(of).filter(({ apiVersion }) => apiVersion === 'keda.sh/v1alpha1')
    assert.deepEqual([...new Set(objects.map(({ kind }) => kind))].toSorted(), [
      'ScaledObject',
      'TriggerAuthentication',
    ])
    for (const object of objects) {
      const schema = definitions.get(object.kind)
      assert.ok(schema, object.kind)
      assert.deepEqual(faultsOf(object, schema, object.kind), [])
    }
    // The comparison sees a field that is none, and one of another type.
    const [scaled] = objects.filter(({ kind }) => kind === 'ScaledObject')
    const wrong = { ...scaled, spec: { ...scaled?.spec, minReplicas: 1, maxReplicaCount: '8' } }
    assert.deepEqual(faultsOf(wrong, definitions.get('ScaledObject') ?? {}, 'it'), [
      'it.spec.maxReplicaCount: expected integer',
      'it.spec.minReplicas: unknown',
    ])
  })

  test('every role is a worker of the code, in one of our images, with the user of the images', () => {
    const workers = pods(of('the least'))
    assert.deepEqual([...workers.keys()].toSorted(), [...ROLES].toSorted())
    for (const [role, { kind, spec }] of workers) {
      assert.equal(kind, role === 'sandbox' ? 'StatefulSet' : 'Deployment')
      const [worker] = spec.template.spec.containers
      assert.deepEqual(worker?.args, ['worker', '--role', role])
      const target = /^longhaul\/(\w+):0\.1\.0$/.exec(worker?.image ?? '')?.[1] ?? ''
      assert.ok((TARGETS as readonly string[]).includes(target), worker?.image)
      assert.equal(worker?.securityContext['runAsUser'], USER)
    }
  })

  test('a digest overrides a tag, and pull secrets are named', () => {
    const workers = pods(of('Temporal Cloud, a key for payloads, new code, scaling'))
    const image = (role: string): string | undefined => workers.get(role)?.spec.template.spec.containers[0]?.image
    assert.equal(image('trainer'), `registry.example.org/lab/longhaul/trainer@sha256:${'a'.repeat(64)}`)
    assert.equal(image('control'), 'registry.example.org/lab/longhaul/worker:0.1.0-3')
  })

  test('pods meet the policy `restricted`, except for the sandbox engine and the socket of a node’s engine', () => {
    const breaks: string[] = []
    for (const name of everywhere) {
      for (const [role, { spec }] of pods(of(name))) {
        breaks.push(...againstRestricted(spec.template.spec).map((what) => `${role}: ${what}`))
      }
    }
    assert.deepEqual([...new Set(breaks)].toSorted(), [
      'sandbox: container engine is privileged',
      'sandbox: container engine runs as root',
      'sandbox: volume engine is a hostPath',
    ])
  })

  test('the pod of an engine sets no fsGroup, because the files of its volume belong to images', () => {
    for (const name of everywhere) {
      const pod = pods(of(name)).get('sandbox')?.spec.template.spec
      const hasEngine = pod?.initContainers?.some((container) => container.name === 'engine') ?? false
      assert.equal(pod?.securityContext['fsGroup'], hasEngine ? undefined : USER, name)
    }
  })

  test('the chart creates no Secret, gives only pods that use the cluster a token, and mounts only what exists', () => {
    for (const name of everywhere) {
      const manifests = of(name)
      assert.deepEqual(
        manifests.filter(({ kind }) => kind === 'Secret'),
        [],
      )
      const named = (kind: string): Set<string> =>
        new Set(manifests.filter((manifest) => manifest.kind === kind).map(({ metadata }) => metadata.name))
      for (const [role, { spec }] of pods(manifests)) {
        const pod = spec.template.spec
        const usesCluster = role === 'trainer' || (role === 'sandbox' && name.includes('without an engine'))
        assert.equal(pod.automountServiceAccountToken, usesCluster, `${name}: ${role}`)
        assert.ok(named('ServiceAccount').has(pod.serviceAccountName))
        const volumes = new Set(
          pod.volumes.map((volume) => volume.name).concat(role === 'sandbox' ? 'engine-data' : []),
        )
        for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
          for (const mount of container.volumeMounts) assert.ok(volumes.has(mount.name), `${role}: ${mount.name}`)
          const paths = container.volumeMounts.map(({ mountPath }) => mountPath)
          assert.equal(new Set(paths).size, paths.length)
          for (const source of container.envFrom ?? []) {
            if (source.configMapRef !== undefined) assert.ok(named('ConfigMap').has(source.configMapRef.name))
          }
          const variables = (container.env ?? []).map((variable) => variable.name)
          assert.equal(new Set(variables).size, variables.length, variables.join())
        }
        for (const { configMap } of pod.volumes as { configMap?: { name: string } }[]) {
          if (configMap !== undefined) assert.ok(named('ConfigMap').has(configMap.name), configMap.name)
        }
      }
    }
  })

  test('secrets are references to a variable or a file, and none is in a ConfigMap', () => {
    const manifests = of('Temporal Cloud, a key for payloads, new code, scaling')
    const worker = pods(manifests).get('sandbox')?.spec.template.spec.containers[0]
    const fromSecrets = Object.fromEntries(
      (worker?.env ?? []).flatMap(({ name, valueFrom }) =>
        valueFrom !== undefined && 'secretKeyRef' in valueFrom ? [[name, valueFrom.secretKeyRef]] : [],
      ),
    )
    assert.deepEqual(fromSecrets, {
      TEMPORAL_API_KEY: { name: 'temporal-cloud', key: 'api-key' },
      LONGHAUL_POLICY_API_KEY: { name: 'engines', key: 'key' },
      AWS_ACCESS_KEY_ID: { name: 'bucket', key: 'AWS_ACCESS_KEY_ID' },
      AWS_SECRET_ACCESS_KEY: { name: 'bucket', key: 'AWS_SECRET_ACCESS_KEY' },
    })
    assert.ok(worker?.envFrom?.some(({ secretRef }) => secretRef?.name === 'chat-keys'))
    const codec = pods(manifests)
      .get('control')
      ?.spec.template.spec.volumes.find(({ name }) => name === 'codec-keys')
    assert.deepEqual(codec?.['secret'], {
      secretName: 'codec',
      items: [{ key: 'codec-keys', path: 'keys' }],
    })
  })

  test('a worker reads every variable, and accepts its value', () => {
    const known = new Set(ENVIRONMENT.flatMap(({ variables }) => variables.map(({ name }) => name)))
    for (const name of everywhere) {
      const manifests = of(name)
      const environment = manifests.find(({ metadata }) => metadata.name === 'lab-longhaul-environment')?.data ?? {}
      assert.deepEqual(
        Object.keys(environment).filter((key) => !known.has(key)),
        [],
      )
      for (const { spec } of pods(manifests).values()) {
        const [worker] = spec.template.spec.containers
        const own = Object.fromEntries((worker?.env ?? []).map((variable) => [variable.name, variable.value ?? 'x']))
        assert.deepEqual(
          Object.keys(own).filter((key) => !known.has(key)),
          [],
        )
        // Files of TLS and of codec keys are not on this machine.
        const here = Object.entries({ ...environment, ...own }).filter(([key]) => !/TLS|CODEC|API_KEY/.test(key))
        const read = readWorkerEnvironment({ ...Object.fromEntries(here), LONGHAUL_CACHE: '/var/lib/longhaul/cache' })
        assert.equal(read.temporal.address, environment['TEMPORAL_ADDRESS'])
        assert.equal(read.artifacts, environment['LONGHAUL_ARTIFACTS'])
      }
    }
    const sandbox = pods(of('Temporal Cloud, a key for payloads, new code, scaling')).get('sandbox')
    const values = sandbox?.spec.template.spec.containers[0]?.env ?? []
    assert.equal(values.find(({ name }) => name === 'LONGHAUL_SANDBOX_MEMORY_GIB')?.value, '64')
  })

  test('the grace period of a pod covers the shutdown of its worker and, on a sandbox host, the drain', async () => {
    const source = await readFile(packageFile('src/workers/run-worker.ts'), 'utf8')
    const seconds = (pattern: RegExp): number => Number(pattern.exec(source)?.[1]?.replaceAll('_', '') ?? Number.NaN)
    const worst = seconds(/shutdownForceTime: '(\d+)s'/) + seconds(/TRACES_CLOSE_MS = ([\d_]+)/) / 1000
    for (const [role, { spec }] of pods(of('the least'))) {
      const { terminationGracePeriodSeconds: grace, containers } = spec.template.spec
      const drain = Number(containers[0]?.lifecycle?.preStop.exec.command[1] ?? 0)
      assert.equal(drain, role === 'sandbox' ? 300 : 0)
      assert.ok(grace >= worst + 10 + drain, `${role}: ${grace} s for ${worst} s`)
    }
    // A node's engine keeps the sandboxes, so the next worker goes on in them.
    const host = pods(of('client certificates, a shared directory, the engines of nodes, jobs elsewhere')).get(
      'sandbox',
    )
    assert.equal(host?.kind, 'DaemonSet')
    assert.equal(host?.spec.template.spec.containers[0]?.lifecycle, undefined)
    assert.equal(host?.spec.template.spec.initContainers, undefined)
  })

  test('probes ask the port that the worker opens', () => {
    for (const { spec } of pods(of('the least')).values()) {
      const [worker] = spec.template.spec.containers
      const probe = worker?.readinessProbe?.httpGet
      const port = worker?.ports?.find(({ name }) => name === probe?.port)?.containerPort
      assert.deepEqual([probe?.path, port], ['/ready', 9470])
    }
  })

  test('the rights of a sandbox worker without an engine equal those of the shipped manifest, in its namespace', async () => {
    const shipped = JSON.parse(await readFile(packageFile('infra/kubernetes/sandboxes.json'), 'utf8')) as {
      items: Manifest[]
    }
    const isRole = ({ kind }: Manifest): boolean => kind === 'Role'
    const roles = of('sandboxes and graders as pods, without an engine, scaling')
      .filter(isRole)
      .filter(({ metadata }) => metadata.name.endsWith('sandbox-pods'))
    assert.deepEqual(
      roles.map(({ metadata, rules }) => [metadata.namespace, rules]),
      shipped.items.filter(isRole).map(({ rules }) => ['agents', rules]),
    )
    assert.equal(of('the least').filter(({ metadata }) => metadata.name.endsWith('sandbox-pods')).length, 0)
  })

  test('the trainer’s rights equal those of docs/training-jobs.md, in the namespace of its jobs', async () => {
    const page = await readFile(packageFile('docs/training-jobs.md'), 'utf8')
    const documented = [
      ...page.matchAll(
        /^\| ((?:`[a-z.0-9-]+`(?:, )?)+) \| ((?:get|create|delete|list)(?:, (?:get|create|delete|list))*) \|/gm,
      ),
    ].flatMap(([, resources = '', verbs = '']) =>
      [...resources.matchAll(/`([^`]+)`/g)].map(([, resource = '']) => `${resource}: ${verbs.trim()}`),
    )
    assert.equal(documented.length, 5)
    for (const [name, namespace] of [
      ['the least', 'longhaul'],
      ['client certificates, a shared directory, the engines of nodes, jobs elsewhere', 'training'],
    ] as const) {
      const role = of(name).find(({ kind }) => kind === 'Role')
      const rules = (role?.rules ?? []) as { apiGroups: string[]; resources: string[]; verbs: string[] }[]
      const granted = rules.flatMap(({ apiGroups: [group = ''], resources, verbs }) =>
        resources.map((resource) => `${resource}${group === '' ? '' : `.${group}`}: ${verbs.join(', ')}`),
      )
      assert.deepEqual(granted.toSorted(), documented.toSorted())
      assert.equal(role?.metadata.namespace, namespace)
    }
  })

  test('every role has a network policy with the ports of its dependencies', () => {
    const policies = of('Temporal Cloud, a key for payloads, new code, scaling').filter(
      ({ kind }) => kind === 'NetworkPolicy',
    )
    assert.equal(policies.length, ROLES.length)
    const open = (role: string): number[] =>
      policies
        .filter(({ spec }) => spec.podSelector?.matchLabels['app.kubernetes.io/component'] === role)
        .flatMap(({ spec }) => (spec.egress ?? []).flatMap(({ ports = [] }) => ports.map(({ port }) => port)))
    // DNS twice; Temporal; the policy server and HTTPS; the bucket.
    assert.deepEqual(open('control'), [53, 53, 7233, 443, 9000])
    assert.deepEqual(open('trainer'), [53, 53, 7233, 443, 9000, 6443])
    for (const { spec } of policies) assert.equal(spec.ingress?.length, 1)
    for (const { spec } of of('the least').filter(({ kind }) => kind === 'NetworkPolicy'))
      assert.deepEqual(spec.ingress, [])
    assert.deepEqual(
      of(everywhere[2] ?? '').filter(({ kind }) => kind === 'NetworkPolicy'),
      [],
    )
  })

  test('autoscaling watches the queues of the code, and autoscaled workloads set no replicas', () => {
    const manifests = of('Temporal Cloud, a key for payloads, new code, scaling')
    const scaled = manifests.filter(({ kind }) => kind === 'ScaledObject')
    assert.deepEqual(
      scaled.map(({ metadata, spec }) => [
        metadata.labels['app.kubernetes.io/component'],
        spec.scaleTargetRef?.kind,
        spec.triggers?.[0]?.metadata['taskQueue'],
      ]),
      [
        ['control', 'Deployment', QUEUES.control],
        ['artifacts', 'Deployment', QUEUES.artifacts],
        ['sandbox', 'StatefulSet', QUEUES.placement],
      ],
    )
    for (const { spec } of scaled) {
      const target = manifests.find(
        ({ kind, metadata }) => kind === spec.scaleTargetRef?.kind && metadata.name === spec.scaleTargetRef.name,
      )
      assert.ok(target, spec.scaleTargetRef?.name)
      assert.equal(target.spec.replicas, undefined)
      assert.equal(spec.triggers?.[0]?.authenticationRef?.name, 'lab-longhaul-temporal')
    }
    assert.equal(scaled[0]?.spec.triggers?.[0]?.metadata['workerDeploymentName'], DEPLOYMENT)
    assert.deepEqual(
      of('the least').filter(({ apiVersion }) => apiVersion.startsWith('keda')),
      [],
    )
  })

  test('disruption budgets protect only roles with several replicas', () => {
    const budgets = of('the least').filter(({ kind }) => kind === 'PodDisruptionBudget')
    assert.deepEqual(
      budgets.map(({ metadata }) => metadata.labels['app.kubernetes.io/component']),
      ['control', 'sandbox'],
    )
  })

  test('host names stay distinct with a release name of any length', async () => {
    const release = `${'a'.repeat(52)}b`
    const { stdout, exitCode, tail } = await ask(['template', release], LEAST)
    assert.equal(exitCode, 0, tail)
    const [, name = ''] = /^kind: StatefulSet\nmetadata:\n {2}name: (\S+)$/m.exec(stdout) ?? []
    const hosts = [9, 10, 999].map((index) => hostIdentity(`${name}-${index}`).hostId)
    assert.deepEqual(
      hosts,
      [9, 10, 999].map((index) => `${name}-${index}`),
    )
  })

  test('the chart has the version of the package', async () => {
    const chart = parse(await readFile(join(CHART, 'Chart.yaml'), 'utf8')) as Record<string, string>
    const { version } = JSON.parse(await readFile(packageFile('package.json'), 'utf8')) as { version: string }
    assert.deepEqual([chart['version'], chart['appVersion']], [version, version])
  })

  const refused: [what: string, change: (values: Values) => Values, says: RegExp][] = [
    ['nothing at all', () => ({}), /temporal\/address|\/temporal/],
    ['an address without a port', (v) => ({ ...v, temporal: { address: 'temporal' } }), /at '\/temporal\/address'/],
    ['a key that is none', (v) => ({ ...v, replicas: 2 }), /additional properties 'replicas' not allowed/],
    [
      'a misspelt key below',
      (v) => ({ ...v, control: { replicaCount: 2 } }),
      /at '\/control'.*'replicaCount' not allowed/s,
    ],
    ['no store', (v) => ({ ...v, artifacts: { location: '' } }), /at '\/artifacts\/location'/],
    ['another kind of store', (v) => ({ ...v, artifacts: { location: 'gs://bucket' } }), /at '\/artifacts\/location'/],
    [
      'a directory without a claim',
      (v) => ({ ...v, artifacts: { location: '/shared/longhaul' } }),
      /at '\/artifacts\/claim\/name'.*minLength/s,
    ],
    [
      'a policy server that is no URL',
      (v) => ({ ...v, policyServer: { url: 'engines:8000' } }),
      /at '\/policyServer\/url'/,
    ],
    [
      'an engine in pods without its image',
      (v) => ({ ...v, sandbox: { engine: { kind: 'pod' } } }),
      /at '\/sandbox\/engine\/pod\/image'/,
    ],
    [
      'an engine of another kind',
      (v) => ({ ...v, sandbox: { engine: { kind: 'podman' } } }),
      /at '\/sandbox\/engine\/kind'/,
    ],
    [
      'pods as sandboxes without their namespace',
      (v) => ({ ...v, sandbox: { engine: { kind: 'none' }, cpus: 8 } }),
      /at '\/sandbox\/pods\/namespace'/,
    ],
    [
      'pods as sandboxes without a capacity',
      (v) => ({ ...v, sandbox: { engine: { kind: 'none' }, pods: { namespace: 'agents' } } }),
      /at '\/sandbox\/cpus'/,
    ],
    [
      'hosts of nodes that scale',
      (v) => ({
        ...v,
        sandbox: { engine: { kind: 'node' }, autoscaling: { enabled: true, min: 1, max: 2, queueSize: 1 } },
      }),
      /at '\/sandbox\/autoscaling\/enabled'/,
    ],
    ['two trainers', (v) => ({ ...v, trainer: { replicas: 2 } }), /at '\/trainer\/replicas'/],
    [
      'less time than a worker needs to end',
      (v) => ({ ...v, terminationGraceSeconds: 10 }),
      /at '\/terminationGraceSeconds'.*minimum/s,
    ],
    ['a tag for a digest', (v) => ({ ...v, image: { digests: { worker: '0.1.0' } } }), /at '\/image\/digests\/worker'/],
    ['a secret in the clear', (v) => ({ ...v, env: { TEMPORAL_API_KEY: 'abc' } }), /at '\/env\/TEMPORAL_API_KEY'/],
    [
      'a variable that a key sets',
      (v) => ({ ...v, env: { LONGHAUL_ARTIFACTS: '/x' } }),
      /at '\/env\/LONGHAUL_ARTIFACTS'/,
    ],
    ['a secret without its key', (v) => ({ ...v, policyServer: { url: 'http://x', apiKey: { name: 'a' } } }), /apiKey/],
  ]
  for (const [what, change, says] of refused) {
    test(`refuses a chart and names what is wrong: ${what}`, async () => {
      const { exitCode, tail } = await ask(['template', 'lab'], change(LEAST))
      assert.notEqual(exitCode, 0)
      assert.match(tail, says)
    })
  }
})

/** What https://kubernetes.io/docs/concepts/security/pod-security-standards calls `restricted`, of the fields that pods here have. */
function againstRestricted(pod: PodSpec): string[] {
  const breaks: string[] = []
  const volumes = [
    'configMap',
    'emptyDir',
    'persistentVolumeClaim',
    'secret',
    'projected',
    'csi',
    'downwardAPI',
    'ephemeral',
  ]
  for (const { name, ...source } of pod.volumes) {
    const [kind = ''] = Object.keys(source)
    if (!volumes.includes(kind)) breaks.push(`volume ${name} is a ${kind}`)
  }
  const seccomp = (pod.securityContext['seccompProfile'] as { type?: string } | undefined)?.type
  if (seccomp !== 'RuntimeDefault') breaks.push('no seccomp profile')
  for (const { name, securityContext: own } of [...(pod.initContainers ?? []), ...pod.containers]) {
    if (own['privileged'] === true) {
      breaks.push(`container ${name} is privileged`)
      if (own['runAsUser'] === 0) breaks.push(`container ${name} runs as root`)
      continue
    }
    if (own['allowPrivilegeEscalation'] !== false) breaks.push(`container ${name} may gain rights`)
    if (own['runAsNonRoot'] !== true) breaks.push(`container ${name} may be root`)
    if (own['readOnlyRootFilesystem'] !== true) breaks.push(`container ${name} may write to its image`)
    const { drop, add } = (own['capabilities'] ?? {}) as { drop?: string[]; add?: string[] }
    if (drop?.join() !== 'ALL' || add !== undefined) breaks.push(`container ${name} keeps capabilities`)
  }
  return breaks
}

interface Schema {
  type?: string
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  items?: Schema
  required?: string[]
  'x-kubernetes-preserve-unknown-fields'?: boolean
}

/** KEDA's own definitions, as its module holds them, or the reason why they are not here. */
async function kedaDefinitions(): Promise<Map<string, Schema> | string> {
  const args = ['mod', 'download', '-json', 'github.com/kedacore/keda/v2@v2.20.2']
  const env = { ...process.env, GOWORK: 'off', GOFLAGS: '' }
  const command = (await goProgram()) ?? 'go'
  const { exitCode, stdout, tail } = await runCommand({ command, args, cwd: tmpdir(), env, timeoutMs: 300_000 })
  if (exitCode !== 0) return `the definitions of KEDA cannot be fetched: ${tail.split('\n').at(-1)}`
  const { Dir: folder } = JSON.parse(stdout) as { Dir: string }
  const definitions = new Map<string, Schema>()
  for (const name of ['scaledobjects', 'triggerauthentications']) {
    const text = await readFile(join(folder, `config/crd/bases/keda.sh_${name}.yaml`), 'utf8')
    const { spec } = parse(text) as {
      spec: { names: { kind: string }; versions: { name: string; schema: { openAPIV3Schema: Schema } }[] }
    }
    const version = spec.versions.find((one) => one.name === 'v1alpha1')
    if (version !== undefined) definitions.set(spec.names.kind, version.schema.openAPIV3Schema)
  }
  return definitions
}

/** Unknown fields, missing ones, and other types. */
function faultsOf(value: unknown, schema: Schema, at: string): string[] {
  if (schema.type === 'array') {
    if (!Array.isArray(value)) return [`${at}: expected array`]
    return value.flatMap((item, index) => faultsOf(item, schema.items ?? {}, `${at}[${index}]`))
  }
  if (schema.type === 'object') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${at}: expected object`]
    const { properties, additionalProperties, required = [] } = schema
    const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true || properties === undefined
    const missing = required.filter((key) => !(key in value)).map((key) => `${at}.${key}: missing`)
    const below = Object.entries(value).flatMap(([key, item]) => {
      const known = properties?.[key]
      if (known !== undefined) return faultsOf(item, known, `${at}.${key}`)
      if (typeof additionalProperties === 'object') return faultsOf(item, additionalProperties, `${at}.${key}`)
      return isOpen ? [] : [`${at}.${key}: unknown`]
    })
    return [...missing, ...below.toSorted()]
  }
  const types: Record<string, boolean> = {
    string: typeof value === 'string',
    integer: Number.isInteger(value),
    boolean: typeof value === 'boolean',
  }
  return schema.type === undefined || types[schema.type] === true ? [] : [`${at}: expected ${schema.type}`]
}
