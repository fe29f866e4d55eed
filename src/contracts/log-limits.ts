/** Test logs are text of a few MB. What floods one of a grading's streams is cut: its end marker is gone then, so it proves nothing. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024

/** Of a stored log: two streams, and the line that says that the tests were ended. */
export const MAX_STORED_LOG_BYTES = 2 * MAX_LOG_BYTES + 1024
