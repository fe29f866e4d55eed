/**
 * TypeScript without its blank lines and its comments, as far as these have lines of their own: two texts that are equal so are the
 * same program, so a comment put into plain words does not make a figure old. What is not certainly a comment stays.
 */
export function codeLines(text: string): string {
  const kept: string[] = []
  let isInComment = false
  for (const line of text.split('\n')) {
    const words = line.trim()
    if (isInComment) {
      // Code behind the end of a comment is code.
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
