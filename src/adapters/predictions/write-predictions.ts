import type { Prediction } from '../../contracts/predictions.types.ts'

/** How a file of predictions is laid out. */
export const PREDICTION_LAYOUTS = ['json', 'jsonl', 'preds', 'rebench-v2'] as const
export type PredictionLayout = (typeof PREDICTION_LAYOUTS)[number]

/**
 * A file that the official harnesses read: `json` a list, `jsonl` one object a line, `preds` the object of mini-swe-agent,
 * `rebench-v2` a list of ids and patches. Characters beyond ASCII are kept as they are; all of them read UTF-8.
 */
export function writePredictions(predictions: readonly Prediction[], layout: PredictionLayout): string {
  const swebench = predictions.map(({ taskId, model, patch }) => ({
    model_name_or_path: model,
    instance_id: taskId,
    model_patch: patch,
  }))
  switch (layout) {
    case 'json':
      return `${JSON.stringify(swebench, null, 2)}\n`
    case 'jsonl':
      return swebench.map((one) => `${JSON.stringify(one)}\n`).join('')
    case 'preds':
      return `${JSON.stringify(Object.fromEntries(swebench.map((one) => [one.instance_id, one])), null, 2)}\n`
    case 'rebench-v2':
      return `${JSON.stringify(
        predictions.map(({ taskId, patch }) => ({ instance_id: taskId, patch })),
        null,
        2,
      )}\n`
  }
}
