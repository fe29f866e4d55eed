/** Fills in the forms of the Temporal UI like a user. */
import assert from 'node:assert/strict'
import type { FrameLocator, Locator, Page } from 'playwright-core'
import { HANG_MS } from './hang.ts'

interface StartForm {
  page: Page
  /** Address of the UI. */
  url: string
  workflowId: string
  taskQueue: string
  type: string
  /** JSON */
  input: string
}

/** Leaves the form ready to be sent. @returns its button */
export async function fillStartForm({ page, url, workflowId, taskQueue, type, input }: StartForm): Promise<Locator> {
  await page.goto(url)
  await page.getByRole('button', { name: 'Start Workflow' }).click()
  await page.getByLabel('Workflow ID').fill(workflowId)
  await page.getByLabel('Task Queue').fill(taskQueue)
  await page.getByLabel('Workflow Type').fill(type)
  await typeInto(page.locator('main'), input)
  await page.getByText('Task Queue is Active').waitFor()
  return page.getByRole('button', { name: 'Start Workflow' })
}

/** The editor completes quotes and brackets while a user types, but accepts text unchanged that is filled in at once. */
export async function typeInto(form: Locator, json: string): Promise<void> {
  const editor = form.locator('.cm-content').first()
  await editor.fill(json)
  assert.deepEqual(JSON.parse(await editor.innerText()), JSON.parse(json))
  // The editor re-renders its text when it loses focus, which moves the button below it.
  await editor.blur()
}

export function detailsFrame(page: Page): FrameLocator {
  return page.frameLocator('main iframe')
}

/** The current details of the displayed workflow, once they match all patterns. The UI fetches them again when R is pressed. */
export async function detailsWith(page: Page, ...patterns: RegExp[]): Promise<string> {
  let text = ''
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; ) {
    text = await detailsFrame(page).locator('main').innerText()
    if (patterns.every((pattern) => pattern.test(text))) return text
    await page.keyboard.press('r')
    await page.waitForTimeout(500)
  }
  throw new Error(`Expected the current details to show ${patterns.join(', ')}, got:\n${text}`)
}
