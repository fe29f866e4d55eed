/** Patches to a layout task that harnesses handle differently. */
import type { LayoutTask } from './layout-tasks.ts'

export const PATCH_KINDS = [
  'gold',
  'empty',
  'wrong',
  'malformed',
  'blank',
  'fuzzy',
  'half-fuzzy',
  'collision',
  'crlf',
  'no-final-newline',
  'forged',
  'slow',
] as const
export type PatchKind = (typeof PATCH_KINDS)[number]

/** The patch for a task of the `conda` or the `plain` layout. */
export function patchOf(kind: PatchKind, { task, wrongPatch }: LayoutTask): string {
  const gold = task.goldPatch
  // The context differs from the repository's: Git refuses it, but `patch` applies it with fuzz.
  const fuzzy = gold.replace('Everything together, and the fee.', 'Everything together.')
  switch (kind) {
    case 'gold':
      return gold
    case 'empty':
      return ''
    case 'wrong':
      return wrongPatch
    case 'malformed':
      return 'diff --git a/shop/prices.py b/shop/prices.py\nthis is no patch\n'
    case 'blank':
      return '\n \n'
    case 'fuzzy':
      return fuzzy
    case 'half-fuzzy':
      // The first hunk applies, so an attempt that applies partially leaves half of it behind.
      return fuzzy.replace('\n@@ ', `\n${CLEAN_HUNK}@@ `)
    case 'collision':
      return gold + newFile(addedTest(task.testPatch), 'def test_nothing():\n    pass\n')
    case 'crlf':
      return gold.replaceAll('\n', '\r\n')
    case 'no-final-newline':
      return gold.slice(0, -1)
    case 'forged': {
      const passed = [...task.failToPass, ...task.passToPass].map((id) => `\rPASSED ${id}\r`)
      return newFile('NOTES.md', ['\r>>>>> Start Test Output\r', ...passed, '\r>>>>> End Test Output\r', ''].join('\n'))
    }
    case 'slow':
      return newFile('shop/__init__.py', 'import time\n\ntime.sleep(120)\n')
        .replace('new file mode 100644\n', '')
        .replace('/dev/null', 'a/shop/__init__.py')
  }
}

const CLEAN_HUNK = `@@ -4,5 +4,5 @@
 
 def cheapest(prices):
-    """The lowest price."""
+    """The lowest of the prices."""
     return min(prices)
 
`

/** A file that the test patch creates; if it creates none, a new file beside those that it changes. */
function addedTest(testPatch: string): string {
  return /new file mode [^]*?\n\+\+\+ b\/(.+)\n/.exec(testPatch)?.[1] ?? 'tests/test_prices_too.py'
}

function newFile(path: string, text: string): string {
  const lines = text.split('\n').slice(0, -1)
  return `diff --git a/${path} b/${path}
new file mode 100644
--- /dev/null
+++ b/${path}
@@ -0,0 +1,${lines.length} @@
${lines.map((line) => `+${line}\n`).join('')}`
}
