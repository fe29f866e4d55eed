import type { ScaffoldProfile } from '../../src/contracts/sandbox.types.ts'
import { issueMessage } from '../../src/scaffold/observation.ts'

/** Recurring parts of lines: frames of tools and of the prompt, and the solver's own words. */
const PARTS = [
  '\n\n(Current directory: /testbed, current file: ',
  ') bash-$',
  '/testbed/',
  '[File: ',
  ' lines total)]\n',
  'File updated. Check indentation and repeated lines.\n',
  'The command ran and printed nothing.',
  'Error: the search text is there ',
  ' times. Make it longer or use --replace-all.',
  'Updated 1 path from the index',
  '=================================== FAILURES ===================================\n',
  '!!!!!!!!!!!!!!!!!!!!!!!!!! stopping after 1 failures !!!!!!!!!!!!!!!!!!!!!!!!!!!\n',
  'python3 -m pytest -qx --tb=line -rN',
  'ImportError: cannot import name ',
  'AttributeError: ',
  ' object has no attribute ',
  'TypeError: ',
  ' got an unexpected keyword argument ',
  '[100%]\n',
  ' passed in ',
  ' failed in ',
  '  # formerly ',
  'system\n',
  'user\n',
  'assistant\n',
  '\n```command\n',
  '\n```',
  " << 'EOF'\n",
  '\nEOF',
  'replace --replace-all ',
  "sed -i 's/",
  'git grep -n ',
  'git checkout ',
  'I run the tests.',
  'I run the tests again.',
  'I search ',
  'I replace the name.',
  'It is there more than once.',
  'I look at the definition.',
  'This file has the new name. ',
  'That was the wrong line. I start again.',
  'No file uses ',
  ' any more.',
  ' is now ',
  '    return ',
]

const SHORTEST = 8

/** Texts that every episode has in the same words: each becomes one token, so that the prompt costs a hundred tokens and not a thousand. */
export function fixedTexts({ systemPrompt }: Pick<ScaffoldProfile, 'systemPrompt'>): string[] {
  const lines = `${systemPrompt}\n${issueMessage('')}`.split('\n').map((line) => `${line}\n`)
  return [...new Set([...PARTS, ...lines.filter((line) => line.trim().length >= SHORTEST)])]
}
