interface Entry {
  atMs: number
  order: number
  act: () => void | Promise<void>
  dropped: boolean
}

/** The fake clock: things that will happen, in order of time and then of entry. Time moves only by taking the next one. */
export class Agenda {
  #entries: Entry[] = []
  #order = 0
  nowMs: number

  constructor(startMs: number) {
    this.nowMs = startMs
  }

  /** @returns a function that takes the entry off the agenda */
  after(delayMs: number, act: () => void | Promise<void>): () => void {
    const entry: Entry = { atMs: this.nowMs + delayMs, order: this.#order++, act, dropped: false }
    // From the end: most entries are later than everything planned so far.
    let place = this.#entries.length
    while (place > 0 && (this.#entries[place - 1]?.atMs ?? 0) > entry.atMs) place--
    this.#entries.splice(place, 0, entry)
    return () => {
      entry.dropped = true
    }
  }

  /** Moves the clock to the next entry and returns what to do; null when nothing is planned. */
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
