#!/usr/bin/env bash
# Runs one evaluation in a CI job. INPUT_* are its inputs (infra/ci/action.yml lists them); the exit code is Longhaul's own. Writes
# result.jsonl (Longhaul's output), junit.xml and summary.md into INPUT_OUTPUT. Appends run, exit code and verdict to the file that
# GITHUB_OUTPUT names, and as LONGHAUL_RUN, LONGHAUL_EXIT_CODE and LONGHAUL_VERDICT to the file that CI_DOTENV names.
set -u -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=${INPUT_OUTPUT:-longhaul-out}
mkdir -p "$output"
job=
# On cancellation the shell forwards the signal and waits; Longhaul cancels the run, writes the files and exits.
trap '[ -z "$job" ] || kill -INT "$job" 2> /dev/null' INT
trap '[ -z "$job" ] || kill -TERM "$job" 2> /dev/null' TERM

if [ -n "${INPUT_LONGHAUL:-}" ]; then
  read -r -a longhaul <<< "$INPUT_LONGHAUL"
else
  longhaul=(node "$here/../../bin/longhaul.mjs")
fi

arguments=(--json)
if [ -n "${INPUT_WAIT:-}" ]; then
  arguments=(wait "$INPUT_WAIT" "${arguments[@]}")
else
  arguments=(evaluate "--recipe=${INPUT_RECIPE:-nightly}" "--once-per=${INPUT_ONCE_PER:-pipeline}" "${arguments[@]}")
  [ -z "${INPUT_POLICY:-}" ] || arguments+=("--policy=$INPUT_POLICY")
  while IFS= read -r setting; do
    [ -z "$setting" ] || arguments+=("--set=$setting")
  done <<< "${INPUT_SET:-}"
fi

if [ "${INPUT_DETACH:-false}" = true ]; then
  arguments+=(--detach)
else
  [ -z "${INPUT_THRESHOLD:-}" ] || arguments+=("--threshold=$INPUT_THRESHOLD")
  [ -z "${INPUT_BASELINE:-}" ] || arguments+=("--baseline=$INPUT_BASELINE")
  [ -z "${INPUT_MAX_REGRESSION:-}" ] || arguments+=("--max-regression=$INPUT_MAX_REGRESSION")
  [ -z "${INPUT_MIN_GRADED:-}" ] || arguments+=("--min-graded=$INPUT_MIN_GRADED")
  [ "${INPUT_STRICT:-false}" != true ] || arguments+=(--strict)
  # GitHub shows the summary of a step; elsewhere the summary is a file of the job.
  arguments+=("--junit=$output/junit.xml" "--summary=${GITHUB_STEP_SUMMARY:-$output/summary.md}")
fi

"${longhaul[@]}" "${arguments[@]}" > "$output/result.jsonl" &
job=$!
code=0
while :; do
  wait "$job"
  code=$?
  # A signal interrupts `wait`, not the job.
  kill -0 "$job" 2> /dev/null || break
done

[ -z "${GITHUB_OUTPUT:-}" ] || node "$here/outputs.mjs" "$output" "$code" >> "$GITHUB_OUTPUT"
[ -z "${CI_DOTENV:-}" ] || node "$here/outputs.mjs" "$output" "$code" dotenv >> "$CI_DOTENV"
exit "$code"
