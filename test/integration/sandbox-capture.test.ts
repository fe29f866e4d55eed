import { describeCapture } from '../support/sandbox-contract/capture.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeCapture(createSandboxFixture)
