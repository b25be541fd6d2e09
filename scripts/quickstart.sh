#!/usr/bin/env bash
# From a fresh clone to a trained model, in a quarter of an hour on two cores: installs, builds, makes
# a text from what lies on this machine, measures the machine, plans for four ranks, trains under the
# plan and sets the prediction beside the measurement.
#
#   scripts/quickstart.sh [STEPS]
#
# Everything it writes lies in build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."

steps=${1:-300}
out=build/quickstart
tessera=build/cpu-release/bin/tessera

say() { printf '\n== %s\n' "$*"; }
# Shows a command, then runs it.
run() {
  printf '$ %s\n' "$*"
  "$@"
}

say "Build"
scripts/build.sh cpu-release tessera tessera-engine
mkdir -p "$out"

say "Make a text, and tokens from its bytes"
run python3 scripts/make_corpus.py --out "$out/corpus.txt"
run $tessera data build "$out/corpus.txt" --out "$out/corpus"

say "Measure this machine"
run $tessera profile --out "$out/machine.json"

say "Plan: tensor and pipeline parallel over four ranks"
run $tessera plan --model tiny-llama-bytes --cluster "$out/machine.json" --devices 4 --tp 2 --pp 2 \
  --global-batch-size 16 --seq-length 128 --out "$out/plan.json"

say "Train $steps steps under the plan"
cat >"$out/train.json" <<EOF
{"lr": 0.002, "min_lr": 0.0002, "lr_warmup_steps": 20, "lr_decay_style": "cosine"}
EOF
run $tessera train --plan "$out/plan.json" --data "$out/corpus" --steps "$steps" \
  --hyperparameters "$out/train.json" --metrics "$out/metrics.jsonl" --export-hf "$out/model"

say "Done"
echo "Plan, metrics and the trained model (Hugging Face form) lie in $out."
