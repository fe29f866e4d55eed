/** Shifts the wall clock of this process: `Date` shows another time from now on. Monotonic clocks do not change. */
const RealDate = Date
let shiftMs = 0

export function shiftClock(ms: number): void {
  shiftMs = ms
  globalThis.Date = ShiftedDate
}

const ShiftedDate = new Proxy(RealDate, {
  construct: (target, args: []) =>
    args.length === 0 ? new target(RealDate.now() + shiftMs) : Reflect.construct(target, args),
  get: (target, property, receiver) =>
    property === 'now' ? () => RealDate.now() + shiftMs : Reflect.get(target, property, receiver),
})
