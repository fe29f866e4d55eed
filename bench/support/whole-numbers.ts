/** Reads options that must be whole numbers above 0; otherwise names them and exits with 1. */
export function wholeNumbers<K extends string>(values: Readonly<Record<K, string>>): Record<K, number> {
  const numbers = Object.entries<string>(values).map(([name, text]) => [name, Number(text)] as const)
  if (numbers.every(([, value]) => Number.isInteger(value) && value > 0)) {
    return Object.fromEntries(numbers) as Record<K, number>
  }
  console.error(`Expected ${numbers.map(([name]) => `--${name}`).join(', ')} to be whole numbers above 0`)
  process.exit(1)
}
