import { createInterface } from 'node:readline'

/**
 * Waits for the end of a pull or an import. The engine answers 200 before it begins, and reports every later failure (a layer that does
 * not arrive, a full disk) as a line of its progress, which the client's own `followProgress` takes for progress.
 * @throws Error with the engine's message
 */
export async function finishProgress(progress: NodeJS.ReadableStream): Promise<void> {
  let failure: string | null = null
  const lines = createInterface({ input: progress, crlfDelay: Number.POSITIVE_INFINITY })
  // A broken connection is an error of the stream, which readline does not pass on.
  const broken = Promise.withResolvers<never>()
  progress.once('error', broken.reject)
  broken.promise.catch(() => undefined)
  const read = async (): Promise<void> => {
    for await (const line of lines) failure ??= failureIn(line)
  }
  await Promise.race([read(), broken.promise])
  if (failure !== null) throw new Error(failure)
}

/** Returns the message of a line that reports a failure; null for progress. */
function failureIn(line: string): string | null {
  if (line.trim() === '') return null
  try {
    const { error, errorDetail } = JSON.parse(line) as { error?: string; errorDetail?: { message?: string } }
    return errorDetail?.message ?? error ?? null
  } catch {
    return `expected the engine’s progress, got ${JSON.stringify(line.slice(0, 200))}`
  }
}
