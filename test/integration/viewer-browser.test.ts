/** The viewer in a real browser: what a reader sees of a hostile run, by mouse, by keyboard and through a screen reader's eyes. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { Browser, Locator } from 'playwright-core'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { episodeKeys, nightKeys, runKeys } from '../../src/contracts/keys.ts'
import { loadAssets, type Assets } from '../../src/viewer/assets.ts'
import type { BlockerLine } from '../../src/viewer/pages.types.ts'
import type { RunSource } from '../../src/viewer/run-source.ts'
import { serveViewer, type RunningViewer } from '../../src/viewer/serve.ts'
import { writeStatic } from '../../src/viewer/write-static.ts'
import { openBrowser } from '../support/browser.ts'
import { makeRecord } from '../support/episode-records.ts'
import { HOSTILE } from '../support/hostile-texts.ts'
import { eventually } from '../support/hang.ts'
import { nightRecord } from '../support/night-records.ts'
import { storeAction, storeEpisode, storeObservation, storeViewedRun } from '../support/viewed-run.ts'
import { axe, foreignElements, type Opened, openPage } from '../support/viewer-page.ts'

let root: string
let store: ArtifactStore
let assets: Assets
let viewer: RunningViewer
let browser: Browser
let hostile: string

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'longhaul-browser-'))
  store = createDirectoryStore({ root: join(root, 'artifacts') })
  await storeViewedRun(store, 'r')
  const fields = { run: 'r', reply: HOSTILE, command: HOSTILE, output: HOSTILE, statement: HOSTILE, patch: HOSTILE }
  hostile = await storeEpisode(store, {
    ...fields,
    taskId: 'o__n-1',
    turns: 3,
    verdict: 'resolved',
    verdictReason: HOSTILE,
  })
  await storeEpisode(store, {
    run: 'r',
    taskId: 'o__n-1',
    index: 1,
    turns: 2,
    signs: ['conftest'],
    suspectedHack: true,
  })
  await storeEpisode(store, { run: 'r', taskId: 'o__m-2', turns: 1, output: 'y'.repeat(10_000_000) })
  await storeNights()
  assets = await loadAssets()
  viewer = await serveViewer({ store, assets })
  browser = await openBrowser()
})

after(async () => {
  await browser?.close()
  await viewer?.close()
  if (root !== undefined) await rm(root, { recursive: true, force: true })
})

/** Two nights: the second is the run that has episodes here, and its verdict is hostile text. */
async function storeNights(): Promise<void> {
  const first = nightRecord({ run: 'before', at: '2026-05-01T02:00:00.000Z', policy: 'v000001-aaaaaaaa' })
  const second = nightRecord({
    run: 'r',
    at: '2026-05-02T02:00:00.000Z',
    policy: 'v000002-bbbbbbbb',
    split: HOSTILE,
    outcome: 'regressed',
    before: 'before',
  })
  for (const record of [first, second]) {
    await store.putRecord(runKeys.night(record.night.run, record.night.name), record)
    await store.putRecord(nightKeys.night(record.night), record)
  }
}

const open = (address: string): Promise<Opened> => openPage(browser, address)

test('shows markup, ANSI and bidi controls of an episode as text and executes none of it', async () => {
  const { page, context, wrong } = await open(`${viewer.url}#/episode/${hostile}`)
  await page.locator('article.turn').waitFor()
  await page.getByText('Statement', { exact: true }).click()
  await page.getByText('Whole reply').click()
  const output = await page.getByRole('region', { name: 'Output of turn 0' }).innerText()
  assert.ok(output.includes('<script>document.title="owned"</script>'))
  assert.ok(output.includes('␛[31mred␛[0m'))
  assert.ok(output.includes('\\u{202e}\\u{2066}// check\\u{2069}'))
  assert.doesNotMatch(output, /[\u202a-\u202e\u2066-\u2069\u200b]|\p{Cc}(?<![\n\t])/u)
  assert.ok((await page.locator('.diff').innerText()).includes('<script>document.title="owned"</script>'))
  assert.equal(await foreignElements(page), 0)
  assert.match(await page.title(), / · Longhaul$/)
  assert.deepEqual(wrong, [])
  await context.close()
})

test('a link without the token opens in a browser that has opened the full address before', async () => {
  const { page, context, wrong } = await open(`${new URL(viewer.url).origin}/#/run/r`)
  await page.getByText('Open the address that longhaul view printed').waitFor()
  await page.goto(viewer.url)
  await page.getByRole('heading', { name: 'Runs' }).waitFor()
  await page.goto(`${new URL(viewer.url).origin}/#/run/r`)
  await page.waitForURL(`${viewer.url}#/run/r`)
  assert.deepEqual(wrong, [])
  await context.close()
})

test('the content policy stops a script that was injected into the page', async () => {
  const { page, context } = await open(viewer.url)
  await page.getByRole('heading', { name: 'Runs' }).waitFor()
  const said = await page.evaluate<{ title: string; refused: string; images: number }>(`(async () => {
    const script = document.createElement('script')
    let refused = ''
    try {
      script.textContent = 'document.title = "owned"'
      document.head.append(script)
    } catch (error) {
      refused = String(error)
    }
    try {
      document.body.innerHTML = '<img src=x onerror="document.title=1">'
    } catch (error) {
      refused += String(error)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
    return { title: document.title, refused, images: document.images.length }
  })()`)
  assert.match(said.title, / · Longhaul$/)
  assert.equal(said.images, 0)
  assert.match(said.refused, /TrustedHTML|Trusted Type/i)
  await context.close()
})

test('search, open, next turn and back work by keyboard, and the address leads there again', async () => {
  const { page, context, wrong } = await open(`${viewer.url}#/run/r`)
  await page.getByRole('table', { name: 'Episodes' }).waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('resolved o__n-1/00')
  await page.getByText('1 of 3 episodes').waitFor()
  await page.keyboard.press('Tab')
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('article', { name: 'Turn 0' }).waitFor()
  await page.keyboard.press('j')
  await page.getByRole('article', { name: 'Turn 1' }).waitFor()
  const again = await open(page.url())
  await again.page.getByRole('article', { name: 'Turn 1' }).waitFor()
  await again.context.close()
  await page.keyboard.press('u')
  await page.getByRole('table', { name: 'Episodes' }).waitFor()
  assert.deepEqual(wrong, [])
  await context.close()
})

test('Enter activates the link or the button that has the focus, and opens the chosen row elsewhere', async () => {
  const { page, context, wrong } = await open(`${viewer.url}#/run/r?words=o__n-1%2F00`)
  await page.getByText('1 of 3 episodes').waitFor()
  await page.getByRole('button', { name: 'clear' }).focus()
  await page.keyboard.press('Enter')
  await page.getByText('3 of 3 episodes').waitFor()
  await page.keyboard.press('j')
  await page.getByRole('link', { name: 'All runs' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('table', { name: 'Runs' }).waitFor()
  assert.deepEqual(wrong, [])
  await context.close()
})

test('filters are part of the address and find flips and hacks', async () => {
  const { page, context } = await open(`${viewer.url}#/run/r?only=flip`)
  await page.getByText('2 of 3 episodes').waitFor()
  await page.getByLabel('only').selectOption('hack')
  await page.getByText('1 of 3 episodes').waitFor()
  assert.match(page.url(), /\?only=hack$/)
  await context.close()
})

test('a line of ten million characters shows its beginning, and the rest on request', async () => {
  const { page, context } = await open(`${viewer.url}#/episode/r/dapo-1/0001/o__m-2/00`)
  const output = page.getByRole('region', { name: 'Output of turn 0' })
  await output.waitFor()
  assert.ok((await output.innerText()).length < 10_000)
  // Two million characters a press.
  for (const length of [2_000_000, 4_000_000, 6_000_000, 8_000_000, 10_000_000]) {
    await page.getByRole('button', { name: /^Show [\d,]+ more characters$/ }).click()
    // Not `waitForFunction`: its looks after the first are evaluated as text, which the policy of the page refuses.
    await eventually(async () => {
      assert.equal(await output.evaluate((shown) => shown.textContent.length), length)
    })
  }
  assert.equal(await page.getByRole('button', { name: /more characters$/ }).count(), 0)
  await context.close()
})

test('a turn that is played while the page is open appears without a reload', async () => {
  const fields = { run: 'r', stage: 'dapo-1', taskId: 'o__live-3', turns: 1 }
  const episode = await storeEpisode(store, { ...fields, hasEnded: false })
  const { page, context, wrong } = await open(`${viewer.url}#/episode/${episode}`)
  await page.getByText('No answer yet.').waitFor()
  await storeObservation(store, episode, 0, 'the world answers')
  await page.getByText('the world answers').waitFor()
  await storeAction(store, makeRecord(fields), 1, { text: 'more', command: 'the next command' })
  await page.getByText('the next command').first().waitFor()
  await page.keyboard.press('j')
  await page.getByRole('article', { name: 'Turn 1' }).getByText('No answer yet.').waitFor()
  // When the episode has ended its page is read again, and with it the turns that were read before they were played.
  await storeObservation(store, episode, 1, 'the last answer')
  await store.putRecord(episodeKeys.result(episode), makeRecord({ ...fields, turns: 2, verdict: 'resolved' }))
  await page.getByText('resolved submitted, 2 turns').waitFor()
  await page.getByRole('region', { name: 'Output of turn 1' }).filter({ hasText: 'the last answer' }).waitFor()
  // The part of these turns was read before they were answered.
  await page.keyboard.press('/')
  await page.keyboard.type('last ANSWER')
  await page.keyboard.press('Enter')
  await page.getByText('1 of 2 turns have “last ANSWER”').waitFor()
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('k')
  await page.getByRole('region', { name: 'Output of turn 0' }).filter({ hasText: 'the world answers' }).waitFor()
  assert.deepEqual(wrong, [])
  await context.close()
})

/** Turn 19 is the last of the first part of the episode's turns. */
async function walkThroughParts({ page, wrong }: Opened): Promise<void> {
  const output = (turn: number) =>
    page.getByRole('region', { name: `Output of turn ${turn}` }).filter({ hasText: new RegExp(`^out ${turn}$`) })
  await output(19).waitFor()
  for (const [key, turn] of [
    ['j', 20],
    ['j', 21],
    ['k', 20],
    ['k', 19],
  ] as const) {
    await page.keyboard.press(key)
    await output(turn).waitFor()
  }
  const line = page.getByRole('img', { name: /^Timeline: sampling 18 s, execution 14 s/ })
  assert.ok(
    (await line.locator('path').count()) <= 3,
    'the timeline must draw one path per colour, not one element per bar',
  )
  const box = await line.boundingBox()
  assert.ok(box !== null)
  // The last turn ends the line.
  await page.mouse.move(box.x + box.width - 2, box.y + 12)
  await eventually(async () => {
    assert.match((await line.locator('title').textContent()) ?? '', /^execution of turn 45: 0\.30 s/)
  })
  await page.mouse.click(box.x + box.width - 2, box.y + 12)
  await page.getByRole('article', { name: 'Turn 45' }).waitFor()
  assert.match(page.url(), /\?turn=45$/)
  // No text of these turns is in the page: one is in another part, the other beyond what a part has of it.
  await page.keyboard.press('/')
  await page.keyboard.type('OUT 7')
  await page.keyboard.press('Enter')
  await page.getByText('1 of 46 turns have “OUT 7”').waitFor()
  await output(7).waitFor()
  await page.getByRole('searchbox').fill('needle')
  await page.keyboard.press('Enter')
  await page.getByText('1 of 46 turns have “needle”').waitFor()
  await page.getByRole('article', { name: 'Turn 45' }).waitFor()
  await page.getByRole('searchbox').fill('out')
  for (const turn of [0, 1]) {
    await page.keyboard.press('Enter')
    await output(turn).waitFor()
  }
  await page.getByText('45 of 46 turns have “out”').waitFor()
  assert.deepEqual(
    wrong.filter((one) => !one.startsWith('asked file:')),
    [],
  )
}

test('a link opens its turn, the timeline and a search over all texts, from the server and from files', async () => {
  await storeViewedRun(store, 'long')
  const fields = { run: 'long', taskId: 'o__long-1', turns: 45 }
  const episode = await storeEpisode(store, fields)
  await storeAction(store, makeRecord({ ...fields, stage: 'dapo-1' }), 45, { text: 'more', command: 'cat haystack' })
  await storeObservation(store, episode, 45, `${'hay '.repeat(5_000)}needle`)
  const directory = join(root, 'static-long')
  await writeStatic({ store, assets, run: 'long', directory })
  for (const base of [viewer.url, pathToFileURL(join(directory, 'index.html')).href]) {
    const opened = await open(`${base}#/episode/${episode}?turn=19`)
    await walkThroughParts(opened)
    await opened.context.close()
  }
})

/** A viewer with a source beside its records. */
async function serveJoined(t: TestContext, source: RunSource): Promise<RunningViewer> {
  const joined = await serveViewer({ store, assets, source })
  t.after(() => joined.close())
  return joined
}

test('shows the workflow history beside the turns as text, and which of several executions it is', async (t) => {
  const at = 2_000
  const activity = { worker: '1@h', summary: HOSTILE, failure: null, state: 'completed' as const }
  const source: RunSource = {
    runs: async () => ({ ok: false, why: 'not asked' }),
    history: async ({ workflowIds, runIds }) =>
      workflowIds[0]?.includes('o__n-1') === true
        ? {
            ok: true,
            value: [
              {
                workflowId: workflowIds[0],
                runId: runIds[0] ?? '',
                status: 'COMPLETED',
                startedMs: 0,
                closedMs: 9_000,
                activities: [
                  {
                    ...activity,
                    activity: 'openSandbox',
                    queue: 'placement',
                    scheduledMs: 100,
                    startedMs: 800,
                    closedMs: 900,
                    attempt: 3,
                    failure: { code: 'Sandbox.EngineUnavailable', message: HOSTILE },
                  },
                  {
                    ...activity,
                    activity: HOSTILE,
                    queue: HOSTILE,
                    scheduledMs: at,
                    startedMs: at + 500,
                    closedMs: null,
                    attempt: 1,
                    state: 'started',
                  },
                ],
                marks: [{ what: 'signal', atMs: 950, note: HOSTILE }],
                events: 2_000,
                eventsRead: 1_990,
              },
            ],
          }
        : { ok: false, why: HOSTILE },
    blockers: async () => ({ ok: true, value: null }),
  }
  const joined = await serveJoined(t, source)
  const { page, context, wrong } = await open(`${joined.url}#/episode/${hostile}`)
  await page.getByText('its last 10 events are not shown').waitFor()
  const history = page.getByRole('table', { name: 'History' })
  await history.getByText('openSandbox').waitFor()
  await history.getByText('attempt before: Sandbox.EngineUnavailable').waitFor()
  await page.getByRole('img', { name: /History: queue .*retries 0\.70 s/ }).waitFor()
  assert.equal(await foreignElements(page), 0)
  assert.deepEqual(await axe(page), [])
  // The same page over a server without that history has the records’ times alone.
  await page.goto(`${joined.url}#/episode/r/dapo-1/0001/o__m-2/00`)
  await page.getByText('From records alone').waitFor()
  assert.equal(await page.getByRole('table', { name: 'History' }).count(), 0)
  assert.equal(await foreignElements(page), 0)
  assert.match(await page.title(), / · Longhaul$/)
  assert.deepEqual(wrong, [])
  await context.close()
})

test('the page shows what a run waits for until the run has ended', async (t) => {
  let hasEnded = false
  const blocker: BlockerLine = {
    on: { kind: 'policy-server', name: 'http://127.0.0.1:1' },
    doing: HOSTILE,
    since: '2026-11-23T10:00:00.000Z',
    for: { workflowId: 'train/r/dapo-1/0001/task/o__n-1/ep/00' },
    count: 1_200,
    error: { code: 'Model.Unavailable', message: HOSTILE },
    toDo: 'start the server',
  }
  const source: RunSource = {
    runs: async () => ({ ok: false, why: 'not asked' }),
    history: async () => ({ ok: false, why: 'not asked' }),
    blockers: async () => ({ ok: true, value: hasEnded ? null : { blockers: [blocker], notLookedAt: 30 } }),
  }
  const joined = await serveJoined(t, source)
  const { page, context, wrong } = await open(`${joined.url}#/run/r`)
  const waits = page.getByRole('region', { name: 'Waits' })
  await waits.getByText('policy server http://127.0.0.1:1').waitFor()
  await waits.getByText(/1,200 wait for it, the oldest is/).waitFor()
  await waits.getByText(/To do: start the server/).waitFor()
  await waits.getByText('30 more open workflows were not looked at.').waitFor()
  assert.equal(await foreignElements(page), 0)
  assert.deepEqual(await axe(page), [])
  hasEnded = true
  await waits.waitFor({ state: 'detached' })
  assert.deepEqual(wrong, [])
  await context.close()
})

test('the cost of a running run is refreshed, and once more after its end', async (t) => {
  await storeViewedRun(store, 'paid')
  const play = (taskId: string): Promise<string> =>
    storeEpisode(store, { run: 'paid', taskId, turns: 2, verdict: 'resolved' })
  let hasEnded = false
  const source: RunSource = {
    runs: async () => ({ ok: false, why: 'not asked' }),
    history: async () => ({ ok: false, why: 'not asked' }),
    blockers: async () => ({ ok: true, value: hasEnded ? null : { blockers: [], notLookedAt: 0 } }),
  }
  await play('o__n-1')
  const joined = await serveJoined(t, source)
  const { page, context, wrong } = await open(`${joined.url}#/run/paid`)
  // Each episode was at work from 1 to 3.5 seconds.
  const cost = (sandboxSeconds: string) =>
    page
      .getByRole('region', { name: 'What the run cost' })
      .getByRole('row')
      .filter({ hasText: 'dapo-1' })
      .getByRole('cell', { name: sandboxSeconds, exact: true })
      .first()
      .waitFor()
  await cost('2.5')
  await play('o__n-2')
  await cost('5.0')
  await play('o__n-3')
  hasEnded = true
  await cost('7.5')
  await page.getByRole('region', { name: 'Waits' }).waitFor({ state: 'detached' })
  assert.deepEqual(wrong, [])
  await context.close()
})

test('axe finds no serious problem on any page', async () => {
  for (const [address, ready] of [
    ['', 'h1'],
    ['#/run/r', '.episodes .space .row'],
    [`#/episode/${hostile}`, 'article.turn pre'],
    [`#/both/${hostile}/r/dapo-1/0001/o__n-1/01`, 'article.turn pre'],
  ] as const) {
    const { page, context } = await open(`${viewer.url}${address}`)
    await page.locator(ready).first().waitFor()
    assert.deepEqual(await axe(page), [], address)
    await context.close()
  }
})

test('the nights page leads to the trend, another metric, a verdict with its comparison and the run', async () => {
  const { page, context, wrong } = await open(`${viewer.url}#/nights`)
  await page.getByRole('link', { name: 'nightly' }).click()
  await page.getByRole('img', { name: /pass@1.*v000001-aaaaaaaa.*last 0.5000 at 2026-05-01/ }).waitFor()
  assert.deepEqual(await axe(page), [])
  await page.getByLabel('Show').selectOption('lost')
  await page.getByRole('img', { name: /infrastructure loss.*last 0.05/ }).waitFor()
  assert.match(page.url(), /metric=lost/)
  await page.getByText('▼ regressed against the last night').click()
  const compare = await page.getByRole('link', { name: 'compare with before' }).getAttribute('href')
  assert.equal(compare, '#/compare/before/nightly/r/nightly')
  assert.equal(await foreignElements(page), 0)
  await page.getByRole('link', { name: '2026-05-02 02:00 r' }).click()
  await page.getByRole('heading', { name: 'Run r' }).waitFor()
  await page.getByRole('link', { name: 'Nights of nightly' }).waitFor()
  assert.deepEqual(wrong, [])
  await context.close()
})

/** What the check below needs of the browser's own type, which tests do not have. */
interface Canvas {
  height: number
  getContext(kind: '2d'): {
    getImageData(x: number, y: number, width: number, height: number): { data: Uint8ClampedArray }
  }
}

/** Whether the strip of a curve's vertical axis has a pixel that stands out from the page. */
function hasReadableAxis(canvas: Locator, scheme: 'light' | 'dark'): Promise<boolean> {
  return canvas.evaluate((element, scheme) => {
    const canvas = element as unknown as Canvas
    const { data } = canvas.getContext('2d').getImageData(0, 0, 40, canvas.height)
    for (let at = 0; at < data.length; at += 4) {
      const isOpaque = (data[at + 3] ?? 0) > 200
      if (isOpaque && (scheme === 'dark' ? (data[at] ?? 0) > 150 : (data[at] ?? 255) < 100)) return true
    }
    return false
  }, scheme)
}

test('a curve can be read in a light and in a dark scheme, also when the scheme changes', async () => {
  const { page, context, wrong } = await open(`${viewer.url}#/trend/nightly`)
  for (const colorScheme of ['light', 'dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme })
    const canvas = page.locator('canvas')
    await canvas.waitFor()
    await eventually(async () => assert.ok(await hasReadableAxis(canvas, colorScheme), colorScheme))
  }
  assert.deepEqual(wrong, [])
  await context.close()
})

test('static files show the same pages without a server, and execute or fetch nothing', async () => {
  const directory = join(root, 'static')
  await writeStatic({ store, assets, run: 'r', directory })
  const address = pathToFileURL(join(directory, 'index.html')).href
  const { page, context, wrong } = await open(`${address}#/run/r`)
  await page.getByRole('table', { name: 'Episodes' }).waitFor()
  await page.goto(`${address}#/episode/${hostile}`)
  await page.getByRole('article', { name: 'Turn 0' }).waitFor()
  assert.equal(await foreignElements(page), 1, 'the content policy of the file, and nothing else')
  await page.goto(`${address}#/trend/nightly`)
  await page.getByRole('link', { name: '2026-05-02 02:00 r' }).waitFor()
  assert.equal(await page.getByRole('link', { name: '2026-05-01 02:00' }).count(), 0, 'that run is not in the report')
  assert.match(await page.title(), / · Longhaul$/)
  assert.deepEqual(
    wrong.filter((one) => !one.startsWith('asked file:')),
    [],
  )
  await context.close()
})
