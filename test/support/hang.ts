/**
 * How long a test waits for what must come. Only something that hangs takes as long: other work may load the machine twentyfold,
 * and a test says what happens, not how fast.
 */
export const HANG_MS = 10 * 60_000
