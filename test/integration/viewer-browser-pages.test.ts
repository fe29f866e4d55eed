/** The viewer's comparison, its tokens and a run of a million turns in a real browser, with hostile texts. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Locator } from 'playwright-core'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import type { Trajectory } from '../../src/adapters/trainer-job/batch/trajectory.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import { type Assets, loadAssets } from '../../src/viewer/assets.ts'
import { type RunningViewer, serveViewer } from '../../src/viewer/serve.ts'
import { openBrowser } from '../support/browser.ts'
import { makeEvaluation, type MakeEvaluationInput } from '../support/evaluation-records.ts'
import { HOSTILE } from '../support/hostile-texts.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { storeEpisode, storeProximal, storeRecords, storeTokens, storeViewedRun } from '../support/viewed-run.ts'
import { axe, foreignElements, openPage } from '../support/viewer-page.ts'
import { putPart } from '../support/record-examples.ts'

let root: string
let store: ArtifactStore
let assets: Assets
let viewer: RunningViewer
let browser: Browser

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'longhaul-browser-pages-'))
  store = createDirectoryStore({ root: join(root, 'artifacts') })
  assets = await loadAssets()
  viewer = await serveViewer({ store, assets })
  browser = await openBrowser()
})

after(async () => {
  await browser?.close()
  await viewer?.close()
  if (root !== undefined) await rm(root, { recursive: true, force: true })
})

/** Of the policy's tokenizer, which all tests share. */
const PIECES = { [HOSTILE]: 10, '<|im_end|>': 258 }

const open = (address: string) => openPage(browser, `${viewer.url}${address}`)

/** An evaluation of tasks of which the second run loses one and gains one; one task's id is hostile and was played on one side alone. */
async function storeEvaluations(): Promise<void> {
  for (const [run, lost, gained] of [
    ['old', 1, 0],
    ['new', 0, 1],
  ] as const) {
    await storeViewedRun(store, run)
    const policy = run === 'old' ? 'v000001-aaaaaaaa' : 'v000002-bbbbbbbb'
    const tasks = [
      { taskId: 'o__lost-1', attempts: [lost] as (0 | 1)[] },
      { taskId: 'o__gained-2', attempts: [gained] as (0 | 1)[] },
      { taskId: 'o__same-3', attempts: [1] as (0 | 1)[] },
      ...(run === 'new' ? [{ taskId: HOSTILE, attempts: [1] as (0 | 1)[] }] : []),
    ]
    await putPart(store, runKeys.evaluation(run, 'nightly'), makeEvaluation({ run, name: 'nightly', policy, tasks }))
    for (const { taskId, attempts } of tasks.slice(0, 3)) {
      const verdict = attempts[0] === 1 ? 'resolved' : 'unresolved'
      const fields = { run, stage: 'eval-nightly', iteration: 0, taskId, turns: 2, verdict } as const
      await storeEpisode(store, { ...fields, output: `${run} ${HOSTILE}`, reply: HOSTILE, command: HOSTILE })
    }
  }
}

test('a comparison of two evaluations shows losses first, ids as text, and a task side by side', async () => {
  await storeEvaluations()
  const { page, context, wrong } = await open('#/compare/old/nightly/new/nightly')
  const tasks = page.getByRole('table', { name: 'Tasks' })
  await tasks.getByRole('row').nth(1).waitFor()
  const rows = await tasks.getByRole('row').allInnerTexts()
  assert.match(rows[1] ?? '', /o__lost-1[^]*worse[^]*1 of 1[^]*0 of 1[^]*side by side/)
  assert.match(rows[2] ?? '', /o__gained-2[^]*better/)
  assert.match(rows[3] ?? '', /o__same-3[^]*same/)
  assert.match(rows[4] ?? '', /<script>document\.title="owned"<\/script>[^]*one side only/)
  assert.equal(rows.length, 5)
  assert.equal(await foreignElements(page), 0)
  assert.equal(await page.title(), 'compare old/nightly/new/nightly · Longhaul')
  assert.deepEqual(await axe(page), [])

  // By keyboard to the second task, by a link into both attempts.
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await tasks.locator('.row.chosen').filter({ hasText: 'o__gained-2' }).waitFor()
  await tasks.getByRole('row').nth(1).getByRole('link', { name: 'side by side' }).click()
  await page.getByRole('heading', { name: 'Two attempts, turn by turn' }).waitFor()
  for (const [side, run] of [
    ['before', 'old'],
    ['after', 'new'],
  ] as const) {
    const output = page
      .getByRole('region', { name: side, exact: true })
      .getByRole('region', { name: 'Output of turn 0' })
    await output.filter({ hasText: `${run} <script>` }).waitFor()
  }
  await page.keyboard.press('j')
  await page.getByText('turn 1, the last is 1').waitFor()
  assert.equal(await foreignElements(page), 0)
  assert.deepEqual(await axe(page), [])
  await page.goBack()
  await tasks.getByRole('link', { name: 'attempt 0: unresolved' }).first().click()
  await page.getByRole('article', { name: 'Turn 0' }).waitFor()
  assert.deepEqual(wrong, [])
  await context.close()
})

test('a link to nothing says once what is missing, and leads on', async () => {
  for (const [address, says, up] of [
    ['#/run/gone', 'Could not read the run: No run is called "gone" in this store', 'All runs'],
    ['#/episode/gone/rft/0000/t/00', 'No episode is called "gone/rft/0000/t/00"', 'Run gone'],
    ['#/tokens/gone/rft/0000/t/00', 'No batch has the episode "gone/rft/0000/t/00"', 'Episode'],
    ['#/compare/gone/a/lost/b', 'One of the two runs is not in this store: "gone" and "lost"', 'Run lost'],
    ['#/trend/gone', 'No evaluation in this store has joined the series "gone"', 'All series'],
  ] as const) {
    const { page, context, wrong } = await open(address)
    await page.getByRole('alert').filter({ hasText: says }).waitFor()
    assert.equal(await page.getByRole('alert').count(), 1, address)
    assert.equal(await page.getByRole('main').count(), 1)
    assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1)
    assert.ok(await page.getByRole('link', { name: up, exact: true }).isVisible())
    assert.match(await page.title(), /gone.* · Longhaul$/)
    assert.deepEqual(await axe(page), [])
    assert.deepEqual(wrong, [])
    await context.close()
  }
})

/** The story: an operator mistypes a run's name. The page asked for its blockers every ten seconds for as long as the tab was open. */
test('the page of an unknown run names runs of a like name and asks no more', async () => {
  await storeViewedRun(store, 'demo-2026-11-20-a')
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.clock.install()
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  await page.goto(`${viewer.url}#/run/demo-2026-11-20-b`)
  await page.getByRole('alert').filter({ hasText: 'No run is called "demo-2026-11-20-b"' }).waitFor()
  const near = page.getByRole('link', { name: 'demo-2026-11-20-a', exact: true })
  await near.waitFor()
  await page.waitForLoadState('networkidle')
  const before = asked.length
  await page.clock.runFor(60_000)
  assert.deepEqual(asked.slice(before), [])
  await near.click()
  await page.getByRole('heading', { name: 'Run demo-2026-11-20-a' }).waitFor()
  await context.close()
})

const TWO_TASKS: MakeEvaluationInput['tasks'] = [
  { taskId: 'a', attempts: [1] },
  { taskId: 'b', attempts: [0] },
]

test('the list of runs is a table with states, dates and scores', async () => {
  await putPart(store, runKeys.claim('listed'), {
    run: 'listed',
    kind: 'eval',
    recipe: HOSTILE,
    startedAt: '2026-11-20T10:11:12.000Z',
  })
  await putPart(
    store,
    runKeys.evaluation('listed', 'alone'),
    makeEvaluation({ run: 'listed', name: 'alone', tasks: TWO_TASKS }),
  )
  const { page, context, wrong } = await open('#/')
  const row = page.locator('.runs .row').filter({ hasText: 'listed' })
  await row.getByText('2026-11-20 10:11').waitFor()
  await row.getByText(/^0\.500 ± \d\.\d{3} alone$/).waitFor()
  assert.equal(await foreignElements(page), 0)
  assert.deepEqual(await axe(page), [])
  assert.deepEqual(wrong, [])
  await context.close()
})

test('every page but the list of runs leads up with the key u', async () => {
  await storeEvaluations()
  await storeViewedRun(store, 'up')
  const trajectories = await storeTokens(store, { run: 'up', iteration: 7, taskId: 't-1', pieces: PIECES })
  const { page, context, wrong } = await open(`#/tokens/${trajectories[0]?.record.episode}`)
  await page.getByRole('heading', { name: 'Tokens of' }).waitFor()
  for (const address of [/#\/episode\/up\//, /#\/run\/up$/, /#\/$/]) {
    await page.keyboard.press('u')
    await page.waitForURL(address)
    await page.getByRole('heading', { level: 1 }).waitFor()
  }
  assert.equal(await page.title(), 'runs · Longhaul')
  await page.goto(`${viewer.url}#/compare/old/nightly/new/nightly`)
  await page.getByRole('heading', { name: 'Difference' }).waitFor()
  await page.keyboard.press('u')
  await page.waitForURL(/#\/run\/new$/)
  assert.deepEqual(wrong, [])
  await context.close()
})

/** Whether a reader sees the middle of the element once it is scrolled to. */
async function isReached(cell: Locator): Promise<boolean> {
  await cell.scrollIntoViewIfNeeded()
  return cell.evaluate((element) => {
    const { x, y, width, height } = element.getBoundingClientRect()
    const seen = element.ownerDocument.elementFromPoint(x + width / 2, y + height / 2)
    return width >= 20 && seen !== null && (element.contains(seen) || seen.contains(element.firstElementChild))
  })
}

test('on a phone every column of every table is reached by scrolling, and so is the end of a long line of a patch', async () => {
  await storeViewedRun(store, 'phone')
  const patch = `--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-short\n+${'x'.repeat(300)}END\n`
  const episode = await storeEpisode(store, { run: 'phone', taskId: 'o__n-1', turns: 2, verdict: 'resolved', patch })
  const { page, context, wrong } = await open('#/run/phone')
  await page.setViewportSize({ width: 375, height: 700 })
  const everyCell = async (name: string): Promise<void> => {
    const row = page.getByRole('table', { name, exact: true }).locator('.space .row').first()
    await row.waitFor()
    for (const [at, cell] of (await row.getByRole('cell').all()).entries()) {
      if ((await cell.innerText()) !== '') assert.ok(await isReached(cell), `${name}, column ${at}`)
    }
  }
  await everyCell('Episodes')
  await page.goto(`${viewer.url}#/episode/${episode}`)
  await everyCell('Turns')
  await everyCell('Tests')
  const table = page.getByRole('table', { name: 'Patch' })
  await table.getByText('END').waitFor()
  await table.evaluate((box) => box.scrollTo(box.scrollWidth, 0))
  const isShown = await table.getByText('END').evaluate((line) => {
    const { ownerDocument } = line
    const text = ownerDocument.createRange()
    text.selectNodeContents(line)
    const { right } = text.getBoundingClientRect()
    const cell = line.closest('[role=cell]')?.getBoundingClientRect()
    return right <= (cell?.right ?? 0) + 1 && right <= ownerDocument.documentElement.clientWidth
  })
  assert.ok(isShown, 'the end of the line must be in its cell and in the window')
  assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 375)
  assert.deepEqual(await axe(page), [])
  assert.deepEqual(wrong, [])
  await context.close()
})

test('a comparison with a missing evaluation says so', async () => {
  await storeViewedRun(store, 'alone')
  const { page, context, wrong } = await open('#/compare/alone/nightly/alone/other')
  await page.getByRole('alert').filter({ hasText: 'the comparison' }).waitFor()
  assert.deepEqual(await axe(page), [])
  assert.deepEqual(wrong, [])
  await context.close()
})

test('each token row has the ratio and clip of the batch file, and pieces are text', async () => {
  await storeViewedRun(store, 'trained')
  const trajectories = await storeTokens(store, { run: 'trained', iteration: 7, taskId: 't-1', pieces: PIECES })
  const ratioOf = (place: number): number => 1.1 + (place % 3) * 0.4
  await storeProximal(store, { run: 'trained', iteration: 7 }, trajectories, ratioOf)
  const { page, context, wrong } = await open(`#/tokens/${trajectories[0]?.record.episode}`)
  const table = page.getByRole('table', { name: 'Tokens' })
  await table.getByRole('row').nth(1).waitFor()
  assert.equal(await table.getAttribute('aria-rowcount'), String((trajectories[0]?.ids.length ?? 0) + 1))
  const cells = await table
    .getByRole('row')
    .evaluateAll((rows) => rows.slice(1).map((row) => [...row.children].map((cell) => cell.textContent)))
  assert.deepEqual(
    cells.map(([at, , ...rest]) => [at, ...rest]),
    expectedCells(trajectories[0] ?? assert.fail(), ratioOf).slice(0, cells.length),
  )
  assert.ok(cells.some(([, piece]) => piece?.includes('<script>document.title="owned"</script>')))
  assert.match(await page.locator('main').innerText(), /6 sampled, 6 of them trained on/)
  assert.equal(await foreignElements(page), 0)
  assert.equal(await page.title(), `tokens ${trajectories[0]?.record.episode} · Longhaul`)
  assert.deepEqual(await axe(page), [])
  // Of the other attempt the last reply was sampled and is off the loss: it has no ratio.
  await page.goto(`${viewer.url}#/tokens/${trajectories[1]?.record.episode}`)
  await page.getByText(/6 sampled, 3 of them trained on/).waitFor()
  assert.equal(await table.getByText('0 masked').count(), 3)
  await page.getByRole('link', { name: 'Episode' }).click()
  await page.waitForURL(/#\/episode\/trained\//)
  assert.deepEqual(wrong, [])
  await context.close()
})

/** Position, id, mask, advantage, log-probability, ratio, clip and policy of each token, from what was put into the batch. */
function expectedCells({ ids, lossMask, logprobs }: Trajectory, ratioOf: (place: number) => number): string[][] {
  return [...ids].map((id, place) => {
    const isTrained = lossMask[place] === 1
    if (!isTrained) return [String(place), String(id), '0 context', '', '', '', '', '']
    const ratio = ratioOf(place)
    return [
      String(place),
      String(id),
      '1 trained',
      '0.5000',
      (logprobs[place] ?? 0).toFixed(4),
      ratio.toFixed(4),
      ratio > 1.28 ? 'outside' : '',
      'v000000-aaaaaaaa',
    ]
  })
}

test('the table of a run of a million turns holds only the visible rows', async () => {
  await storeViewedRun(store, 'million')
  await storeRecords(store, { run: 'million', episodes: 1_000, turns: 1_000 })
  const { page, context, wrong } = await open('#/run/million')
  const table = page.getByRole('table', { name: 'Episodes' })
  await page.getByText('1,000 of 1,000 episodes').waitFor()
  assert.equal(await table.getAttribute('aria-rowcount'), '1001')
  const shown = table.locator('.space .row')
  assert.ok((await shown.count()) < 100, String(await shown.count()))
  assert.deepEqual(await axe(page), [])
  await table.evaluate((box) => box.scrollTo(0, box.scrollHeight))
  await shown.filter({ hasText: 'o__n-0124' }).first().waitFor()
  await eventually(async () => {
    const count = await shown.count()
    assert.ok(count > 0 && count < 100, String(count))
  })
  assert.deepEqual(wrong, [])
  await context.close()
})

test('the page requests its data once, before its script is there', async () => {
  await storeEvaluations()
  await storeViewedRun(store, 'early')
  const episode = await storeEpisode(store, { run: 'early', taskId: 'o__n-1', turns: 25, verdict: 'resolved' })
  for (const [address, ready, data] of [
    [`#/episode/${episode}?turn=21`, 'article.turn pre', [`episode/${episode}`, `turns/1/${episode}`]],
    ['#/run/early', '.episodes .space .row', ['run/early', 'episodes/early']],
    ['#/compare/old/nightly/new/nightly', '.compare .row', ['compare/old/nightly/new/nightly']],
  ] as const) {
    const page = await browser.newPage()
    page.setDefaultTimeout(HANG_MS)
    const asked: string[] = []
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url())
      if (pathname.endsWith('/data')) asked.push(searchParams.get('name') ?? '')
    })
    const held = Promise.withResolvers<void>()
    await page.route('**/viewer.js', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.goto(`${viewer.url}${address}`, { waitUntil: 'commit' })
    await eventually(async () => assert.deepEqual(asked, data))
    held.resolve()
    await page.locator(ready).first().waitFor()
    for (const name of data) assert.equal(asked.filter((one) => one === name).length, 1, name)
    await page.close()
  }
})
