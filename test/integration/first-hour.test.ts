/**
 * `docs/first-hour.md` as a newcomer follows it: every block is typed, in order, in a fresh home and against a stack of its own, and what
 * the page says of it is looked at. A block without a look, and a look without a block, fail.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { stackPaths } from '../../src/stack/paths.ts'
import { openBrowser, openSteadyPage } from '../support/browser.ts'
import { faultsOfJUnit, parseXml } from '../support/ci/junit-schema.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { needsStack } from '../support/pipeline-world.ts'
import { detailsWith, fillStartForm } from '../support/temporal-ui.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const text = await readFile(join(root, 'docs/first-hour.md'), 'utf8')

interface Ended {
  code: number | null
  /** Both streams, as a terminal shows them. */
  shown: string
}

interface Block {
  language: string
  lines: string[]
}

const blocks: Block[] = [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', body = '']) => ({
  language,
  lines: body.trimEnd().split('\n'),
}))

let home: string
let environment: NodeJS.ProcessEnv
let browser: Browser
let page: Page
let ui = ''
const open = new Set<ChildProcess>()

before(async () => {
  if (needsStack !== false) return
  home = await mkdtemp(join(tmpdir(), 'longhaul-first-hour-'))
  await mkdir(join(home, 'bin'))
  const command = `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'bin/longhaul.mjs')}' "$@"\n`
  await writeFile(join(home, 'bin/longhaul'), command)
  await chmod(join(home, 'bin/longhaul'), 0o755)
  environment = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(LONGHAUL|TEMPORAL|CI|GITHUB)/.test(name))),
    PATH: `${join(home, 'bin')}:${process.env['PATH'] ?? ''}`,
    HOME: home,
    LONGHAUL_HOME: join(home, 'data'),
    // What is set up once for a machine, and the name by which the shared engine tells this stack's containers from others'.
    LONGHAUL_CACHE: stackPaths().cacheDir,
    LONGHAUL_STACK: `first-hour-${process.pid}`,
  }
  browser = await openBrowser()
  page = await openSteadyPage(browser)
  page.setDefaultTimeout(HANG_MS)
})

after(async () => {
  await browser?.close()
  for (const child of open) child.kill('SIGKILL')
  if (home === undefined) return
  await type('longhaul down')
  await rm(home, { recursive: true, force: true })
})

/** As typed into a shell. */
function type(line: string): Promise<Ended> {
  const child = start(line)
  return new Promise((resolve, reject) => {
    let shown = ''
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part: Buffer) => (shown += String(part)))
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, shown }))
  })
}

/** `exec`: what is killed or interrupted is the command, not a shell before it. */
function start(line: string): ChildProcess {
  const child = spawn('sh', ['-c', `exec ${line}`], { cwd: home, env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  open.add(child)
  child.once('close', () => open.delete(child))
  return child
}

/** Of a server that goes on: its first line, then what is looked at, then Ctrl-C. */
async function during(line: string, look: (first: string) => Promise<void>): Promise<void> {
  const child = start(line)
  const first = await new Promise<string>((resolve, reject) => {
    child.stdout?.once('data', (part: Buffer) => resolve(String(part).trim()))
    child.once('close', (code) => reject(new Error(`${line} ended with ${code}`)))
  })
  await look(first)
  const ended = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGINT')
  await ended
}

function expectCode(code: number, pattern: RegExp): (line: string) => Promise<void> {
  return async (line) => {
    const ended = await type(line)
    assert.equal(ended.code, code, `${line}\n${ended.shown}`)
    assert.match(ended.shown, pattern)
  }
}

/** What the page says of each command. */
const LOOKS: Record<string, (line: string) => Promise<void>> = {
  'longhaul up': async (line) => {
    const { code, shown } = await type(line)
    assert.equal(code, 0, shown)
    ui = /http:\/\/\S+/.exec(shown.split('\n').find((each) => /\bUI\b/i.test(each)) ?? '')?.[0] ?? ''
    assert.notEqual(ui, '', `no address of the UI in\n${shown}`)
  },
  'longhaul run status first': expectCode(0, /^now +\w/m),
  'longhaul run pause first': async (line) => {
    await expectCode(0, /^result +changed\nnow +(.*\(paused, soft\)|paused before )/m)(line)
    await expectCode(0, /\(paused, soft\)|^now +paused before/m)('longhaul run status first')
  },
  'longhaul view first': (line) =>
    during(line, async (address) => {
      assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/\S+#\/run\/first$/)
      await page.goto(address)
      await page.getByRole('heading', { name: /first/ }).first().waitFor()
    }),
  'longhaul run resume first': expectCode(0, /^result +changed$/m),
  'longhaul wait first': async (line) => {
    await expectCode(0, /^my-first-run is complete/m)(line)
    await during('longhaul view first', async (address) => {
      await page.goto(address)
      await page.getByRole('table', { name: 'Episodes' }).waitFor()
    })
  },
  'longhaul compare first:base first:rft': expectCode(0, /base of first[\s\S]*95 % interval[\s\S]*power: 8 tasks/),
  "longhaul schedule create nightly --recipe mini --cron '0 2 * * *' --timezone Europe/Berlin": expectCode(
    0,
    /^created nightly: evaluate mini/m,
  ),
  'longhaul schedule list': expectCode(0, /^nightly: evaluate mini, 0 2 \* \* \* Europe\/Berlin\n +next /m),
  "longhaul evaluate --recipe mini --run gate --threshold 'pass@1.lower>=0' --junit out/junit.xml --summary out/summary.md":
    async (line) => {
      await expectCode(0, /^threshold met: /m)(line)
      const xml = await parseXml('python3', join(home, 'out/junit.xml'))
      assert.deepEqual(faultsOfJUnit(xml), [])
      assert.match(await readFile(join(home, 'out/summary.md'), 'utf8'), /exit 0/)
    },
  "longhaul wait gate --threshold 'pass@1.lower>=0.99'": expectCode(3, /^threshold missed: /m),
  'longhaul init agents --ci github': async (line) => {
    await expectCode(0, /^wrote agents\/my-mini\.yaml$/m)(line)
    for (const file of ['.env.example', 'schedules.yaml', '.github/workflows/longhaul.yml'])
      assert.notEqual(await readFile(join(home, 'agents', file), 'utf8'), '')
  },
  'longhaul schedule apply agents/schedules.yaml --dry-run': expectCode(
    0,
    /^would be created my-mini-nightly: evaluate my-mini-[0-9a-f]{8}/m,
  ),
  'longhaul down': expectCode(0, /^stopped temporal, /m),
}

test('the page has a check for each of its commands and for no other', () => {
  const lines = blocks.filter(({ language }) => language === 'bash').flatMap((block) => block.lines)
  assert.deepEqual(Object.keys(LOOKS).toSorted(), lines.toSorted())
  assert.deepEqual(
    blocks.filter(({ language }) => language !== 'bash').map(({ language }) => language),
    ['json'],
  )
})

for (const { language, lines } of blocks) {
  for (const line of lines) {
    test(language === 'json' ? `the Temporal UI: ${line}` : line, { skip: needsStack }, async (t) => {
      const began = Date.now()
      if (language === 'json') await startInUi(line)
      else await LOOKS[line]?.(line)
      t.diagnostic(`${((Date.now() - began) / 1000).toFixed(1)} s`)
    })
  }
}

/** What the page says around the block: queue and type. */
async function startInUi(input: string): Promise<void> {
  const [, taskQueue, workflowType] = /task queue `(\w+)`, workflow type `(\w+)`/.exec(text) ?? []
  assert.ok(taskQueue !== undefined && workflowType !== undefined, 'the page names no queue and type before its data')
  const form = { workflowId: 'my-first-run', taskQueue, type: workflowType, input }
  const button = await fillStartForm({ page, url: ui, ...form })
  await button.click()
  const link = page.getByRole('link', { name: form.workflowId }).first()
  // The index lags by a moment, and the list does not follow it by itself.
  await eventually(async () => {
    await page.goto(`${ui}/namespaces/default/workflows`)
    await link.waitFor({ timeout: 5_000 })
  })
  await link.click()
  await page.getByRole('tab', { name: 'User Metadata' }).click()
  await detailsWith(page, /first · /)
}
