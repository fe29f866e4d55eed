/** First message of the full profile: the statement, how Git behaves here, what to check before submitting. */
export function issueMessage(statement: string): string {
  return `The issue to resolve:

${statement.trim()}

${GIT_ADVICE}

${CHECKLIST}

Your shell stands at the root of the repository.`
}

const GIT_ADVICE = `About Git:
- \`git checkout <file>\` or \`git checkout .\` throws your changes away; \`git reset --hard\` does so for everything.
- \`git stash\` puts your changes aside for a comparison, \`git stash pop\` brings them back.
- \`git status\` and \`git diff\` show what you have changed so far.
- Leave your work as plain changes in the working tree: no \`git add\`, no \`git commit\`. \`submit\` takes what \`git diff\` prints at that moment.`

const CHECKLIST = `Before you submit, answer each of these with a sentence of reasoning:
1. Did you see the error of the issue happen?
2. Did you see that it no longer happens with your change?
3. Which edge cases exist, and does the change handle them?
4. Do the existing tests that touch the changed code pass?`
