interface Entry {
  atMs: number
  order: number
  act: () => void | Promise<void>
  dropped: boolean
}

/** The fake clock: future actions, ordered by time and then by entry. Time advances only by taking the next action. */
export class Agenda {
  #entries: Entry[] = []
  #order = 0
  nowMs: number

  constructor(startMs: number) {
    this.nowMs = startMs
  }

  /** @returns a function that removes the entry */
  after(delayMs: number, act: () => void | Promise<void>): () => void {
    const entry: Entry = { atMs: this.nowMs + delayMs, order: this.#order++, act, dropped: false }
    // Searches from the end, because most entries are later than all others.
    let place = this.#entries.length
    while (place > 0 && (this.#entries[place - 1]?.atMs ?? 0) > entry.atMs) place--
    this.#entries.splice(place, 0, entry)
    return () => {
      entry.dropped = true
    }
  }

  /** Advances the clock to the next entry and returns its action; null if none is planned. */
  next(): (() => void | Promise<void>) | null {
    for (;;) {
      const entry = this.#entries.shift()
      if (entry === undefined) return null
      if (entry.dropped) continue
      this.nowMs = entry.atMs
      return entry.act
    }
  }
}
