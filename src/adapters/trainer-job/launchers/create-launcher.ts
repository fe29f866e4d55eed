import type { TrainerRecipe } from '../../../contracts/recipe.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { createDockerLauncher } from './docker-launcher.ts'
import { createKubernetesLauncher } from './kubernetes-launcher.ts'
import type { Launcher } from './launcher.types.ts'
import { createProcessLauncher, type TrainerCommand } from './process-launcher.ts'
import { createSlurmLauncher } from './slurm-launcher.ts'

/** Creates the launcher that a recipe names. The kinds `process` and `torchrun` share one launcher, because it remembers its children. */
export function createLauncher(command: TrainerCommand): (trainer: TrainerRecipe) => Launcher {
  const local = createProcessLauncher(command)
  return (trainer) => {
    switch (trainer.launcher) {
      case 'process':
      case 'torchrun':
        return local
      case 'docker':
        return createDockerLauncher({ options: required(trainer, 'docker'), command })
      case 'slurm':
        return createSlurmLauncher({ options: trainer.slurm, command })
      case 'kubernetes':
        return createKubernetesLauncher({ options: required(trainer, 'kubernetes') })
    }
  }
}

function required<Name extends 'docker' | 'kubernetes'>(
  trainer: TrainerRecipe,
  name: Name,
): NonNullable<TrainerRecipe[Name]> {
  const options = trainer[name]
  if (options !== null) return options
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected trainer.${name} with launcher: ${name}, got nothing`,
  })
}
