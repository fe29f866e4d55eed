import { describeTools } from '../support/sandbox-contract/tools.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeTools(createSandboxFixture)
