/**
 * TypeScript without blank lines and without comments on their own lines. Equal results mean equal programs, so rewording a comment
 * does not make a figure outdated. Anything that is not certainly a comment is kept.
 */
export function codeLines(text: string): string {
  const kept: string[] = []
  let isInComment = false
  for (const line of text.split('\n')) {
    const words = line.trim()
    if (isInComment) {
      // Code after the end of a comment is kept.
      const end = words.indexOf('*/')
      if (end === -1) continue
      isInComment = false
      if (end + 2 < words.length) kept.push(line)
    } else if (words.startsWith('/*') && !words.includes('*/')) isInComment = true
    else if (!isCommentLine(words)) kept.push(line)
  }
  return kept.join('\n')
}

function isCommentLine(words: string): boolean {
  return words === '' || words.startsWith('//') || (words.startsWith('/*') && words.indexOf('*/') === words.length - 2)
}
