import { DefaultFailureConverter } from '@temporalio/common'

type ProtoFailure = ReturnType<DefaultFailureConverter['errorToFailure']>

/** Longer messages and stack traces are cut. The server refuses failures of two mebibytes, and shows their text in every list of events. */
const MOST_CHARACTERS = 100_000

/**
 * Makes the texts of each failure, and of all its causes, valid Unicode. Messages quote what servers, data sets and programs said, and
 * the cut of a quote may halve a character. Core cannot decode a failure with such a half, and ends the whole worker.
 */
export class WellFormedFailureConverter extends DefaultFailureConverter {
  // Called for the failure itself and for each of its causes.
  override errorToFailureInner(...input: Parameters<DefaultFailureConverter['errorToFailureInner']>): ProtoFailure {
    const failure = super.errorToFailureInner(...input)
    const { message, stackTrace, applicationFailureInfo: info } = failure
    return {
      ...failure,
      message: wellFormed(message),
      stackTrace: wellFormed(stackTrace),
      ...(info ? { applicationFailureInfo: { ...info, type: wellFormed(info.type) } } : {}),
    }
  }
}

function wellFormed(text: string | null | undefined): string {
  return (text ?? '').slice(0, MOST_CHARACTERS).toWellFormed()
}

export const failureConverter = new WellFormedFailureConverter()
