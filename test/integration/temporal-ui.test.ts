/**
 * The Temporal UI as the front page, in a real browser against a stack's own server: a run is started by the form, found by what it
 * is of, read, slowed, paused and resumed, with no command typed. LONGHAUL_SCREENSHOTS=DIRECTORY keeps pictures for the documents.
 */
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser, Locator, Page } from 'playwright-core'
import { createSchedule, deleteSchedule, pauseRun, queryProgress, setRunLimits } from '../../src/client/index.ts'
import type { RolloutReport } from '../../src/contracts/workflows.types.ts'
import { openBrowser, openSteadyPage } from '../support/browser.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { endRun, runNameOf } from '../support/run-recipe.ts'
import { detailsFrame, detailsWith, fillStartForm, typeInto } from '../support/temporal-ui.ts'

/** A click that was lost is done again. */
const CLICK_MS = 10_000
const PICTURES = process.env['LONGHAUL_SCREENSHOTS'] ?? ''

let world: PipelineWorld
let browser: Browser
let page: Page
let ui: string
const started: string[] = []

before(async () => {
  if (needsStack !== false) return
  world = await attachWorld()
  assert.ok(world.stack.uiUrl, 'the stack under test has no server of its own')
  ui = `${world.stack.uiUrl}/namespaces/${world.stack.namespace}`
  browser = await openBrowser()
  page = await openSteadyPage(browser, { viewport: { width: 1280, height: 800 } })
  page.setDefaultTimeout(HANG_MS)
})

after(async () => {
  await browser?.close()
  await Promise.all(started.map((workflowId) => endRun({ connection: world.connection, workflowId })))
  await world?.close()
})

test('a run is started by the form, found by a search attribute, read while it plays, limited, paused and resumed', {
  skip: needsStack,
}, async () => {
  const { connection, stack } = world
  const workflowId = `from-the-form-${process.pid}`
  const workflow = { workflowId, taskQueue: 'control', type: 'trainAgent', input: '{"recipe":"mini"}' }
  const start = await fillStartForm({ page, url: stack.uiUrl ?? '', ...workflow })
  await picture('start')
  started.push(workflowId)
  await start.click()
  const run = await eventually(() => runNameOf({ connection, workflowId }))
  // Two tasks at a time, and a pause at what is to be read: a quick machine has played the run before a page is open.
  await setRunLimits({ connection, workflowId, concurrency: 2 })
  const { at: firstReport } = await heldAt(workflowId, ({ groups }) => groups > 0)
  assert.match(run, /^mini-\d{4}-\d{2}-\d{2}-[a-z]+$/)
  assert.deepEqual(await startedWith(workflowId), [{ recipe: 'mini' }])

  await findByFilter(workflowId)
  await update('setLimits', '{"concurrency": 3}')
  await page.getByRole('tab', { name: 'User Metadata' }).click()
  assert.match(await detailsWith(page, /waits for an operator/), /paused, open episodes hold/)

  const form = await fillUpdate('pause', '{"mode": "never"}')
  await form.getByRole('button', { name: 'Submit' }).click()
  await form.getByRole('alert').getByText('Expected no argument, "soft", "hard"').first().waitFor()
  await form.getByRole('button', { name: 'Cancel' }).last().click()
  assert.equal((await queryProgress({ connection, workflowId }))?.pause, 'hard')

  // The rollout tells its root how far it is at most every 15 s, and a time of the end once two tasks are done.
  await sleep(Math.max(0, Date.parse(firstReport) + 16_000 - Date.now()))
  await Promise.all([update('resume', null), heldAt(workflowId, ({ at, eta }) => at !== firstReport && eta !== null)])
  const details = await detailsWith(page, /tasks done[\s\S]*open longest/, /ready at[\s\S]*UTC[\s\S]*open longest/)
  assert.match(details, new RegExp(`${run} · evaluating base`))
  assert.match(details, /An operator set the number of open tasks to 3/)
  assert.match(
    details,
    /tasks done\s+episodes\s+resolved\s+pass@1 so far \(95 %\)\s+ready at\s+[2-7] \/ 8\s+\d+\s+\d+\s+[01]\.\d{3}/,
  )
  assert.match(details, /[01]\.\d{3} \([01]\.\d{3} to [01]\.\d{3}, n = \d\)\s+\d{4}-\d\d-\d\d \d\d:\d\d UTC/)
  assert.match(details, /\b(submitted|turn-limit)\b/)
  assert.match(details, /open longest\s+for\s+synthetic__eval-\d{6}\s+\d+ min/)
  await page.setViewportSize({ width: 1280, height: 1100 })
  await picture('details')
  await page.setViewportSize({ width: 1280, height: 800 })
  const links = detailsFrame(page).getByRole('link')
  const viewer = await links.filter({ hasText: 'Its trajectories' }).getAttribute('href')
  assert.equal(viewer, `${stack.environment['LONGHAUL_VIEWER_URL']}#/run/${run}`)
  const rollout = await links.filter({ hasText: 'its workflow' }).getAttribute('href')
  assert.ok(rollout?.endsWith(encodeURIComponent(`train/${run}/eval-base/0000`)), rollout ?? '')

  await update('resume', null)
  await detailsWith(page, /^(?![\s\S]*waits for an operator)[\s\S]*Its trajectories/)
  assert.equal((await queryProgress({ connection, workflowId }))?.pause, null)
  await update('pause', '{"mode": "hard"}')
  await detailsWith(page, /waits for an operator/)
  assert.equal((await queryProgress({ connection, workflowId }))?.pause, 'hard')
  await picture('paused')
})

test('a schedule is shown with its recipe, its policy for overlaps and its next times', {
  skip: needsStack,
}, async () => {
  const { connection } = world
  const id = `shown-${process.pid}`
  await createSchedule({ connection, id, recipe: 'mini' })
  try {
    await page.goto(`${ui}/schedules`)
    await page.getByRole('link', { name: id }).first().click()
    await page.getByRole('heading', { name: new RegExp(id) }).waitFor()
    await page.getByText('evaluate', { exact: true }).first().waitFor()
    await picture('schedule')
  } finally {
    await deleteSchedule({ connection, id })
  }
})

/** The root alone is found by its split: tasks, episodes and gates are of none. Opens its page. */
async function findByFilter(workflowId: string): Promise<void> {
  await page.goto(`${ui}/workflows`)
  await page.getByRole('button', { name: 'Add Filter' }).click()
  await page.getByRole('menuitem', { name: /^Split/ }).click()
  await page.getByLabel('Value', { exact: true }).fill('synthetic/eval')
  await page.getByRole('button', { name: 'Apply' }).click()
  const row = page.getByRole('row', { name: new RegExp(workflowId) })
  const parts = page
    .getByRole('row')
    .locator('td')
    .filter({ hasText: /^(gateTasks|promptGroup|episode)$/ })
  // The rows of before, with the run's parts among them, are still shown for a moment.
  await eventually(async () => assert.deepEqual([await parts.count(), await row.count()], [0, 1]))
  await picture('filter')
  // A click on a row that is being drawn again is lost.
  await eventually(async () => {
    await row.getByRole('link', { name: workflowId }).click({ timeout: CLICK_MS })
    await page.waitForURL((url) => url.pathname.includes(`/workflows/${workflowId}/`), { timeout: CLICK_MS })
  })
}

/** Pauses the run, so that it holds what it shows, once its open rollout has told it this. */
async function heldAt(workflowId: string, isThere: (report: RolloutReport) => boolean): Promise<RolloutReport> {
  const { connection } = world
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(100)) {
    const told = (await queryProgress({ connection, workflowId }))?.rollout
    if (told === null || told === undefined || !isThere(told)) continue
    await pauseRun({ connection, workflowId, mode: 'hard' })
    return told
  }
  throw new Error(`Expected ${workflowId} to be told how far its rollout is`)
}

/** By the form of the page that is open. */
async function update(name: string, json: string | null): Promise<void> {
  const form = await fillUpdate(name, json)
  if (name === 'pause') await picture('update')
  await form.getByRole('button', { name: 'Submit' }).click()
  await form.waitFor({ state: 'hidden' })
}

async function fillUpdate(name: string, json: string | null): Promise<Locator> {
  await page.getByRole('button', { name: 'More Actions' }).click()
  await page.getByRole('menuitem', { name: 'Send an Update' }).click()
  const form = page.getByRole('dialog', { name: 'Send an Update' })
  await form.getByRole('button', { name: 'Select an Update' }).click()
  await page.getByRole('option', { name, exact: true }).click()
  if (json !== null) await typeInto(form, json)
  return form
}

async function startedWith(workflowId: string): Promise<unknown[]> {
  const { events } = await world.connection.client.workflow.getHandle(workflowId).fetchHistory()
  const payloads = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
  return payloads.map((payload) => JSON.parse(Buffer.from(payload.data ?? []).toString()) as unknown)
}

async function picture(name: string): Promise<void> {
  if (PICTURES === '') return
  await mkdir(PICTURES, { recursive: true })
  await page.screenshot({ path: join(PICTURES, `temporal-ui-${name}.png`) })
}
