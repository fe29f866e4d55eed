/**
 * The exit status of a bench: 1 where something did not hold, 2 where it compared nothing, for then nothing can have failed to hold,
 * 0 otherwise. What was compared is counted under its name: all of it must be there.
 */
export function conclude({
  compared,
  violations,
}: {
  compared: Readonly<Record<string, number>>
  violations: number
}): 0 | 1 | 2 {
  if (violations > 0) return 1
  const nothing = Object.entries(compared).filter(([, count]) => !(count > 0))
  if (nothing.length === 0) return 0
  console.error(`Nothing was compared: ${nothing.map(([what, count]) => `${count} ${what}`).join(', ')}`)
  return 2
}

/** Lets a bench that throws end with 2 instead of Node's 1, which says that something did not hold. Call it first. */
export function endWith2OnError(): void {
  process.on('uncaughtException', (error) => {
    console.error(error)
    process.exit(2)
  })
}
