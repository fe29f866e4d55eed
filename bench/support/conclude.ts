/**
 * The exit status of a bench: 1 if something did not hold, 2 if nothing was compared, because then nothing can have failed, 0
 * otherwise. Every named count of comparisons must be above 0.
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

/** Makes a bench that throws exit with 2 instead of Node's 1, which means that something did not hold. Call it first. */
export function endWith2OnError(): void {
  process.on('uncaughtException', (error) => {
    console.error(error)
    process.exit(2)
  })
}
