#!/bin/sh
# Checks the coordinator model on a CUDA GPU: agreement with the CPU, and what a decision costs there.
# Needs python with torch, transformers, tokenizers, jinja2, numpy and this folder; no model files, no network.
# Prints one JSON object on the last line; without a GPU it says so and ends with 0.
set -eu
cd "$(dirname "$0")/../.."
PYTHON="${PYTHON:-python3}"
if [ -x .venv/bin/python ] && [ -z "${PYTHON_GIVEN:-}" ]; then PYTHON=.venv/bin/python; fi
exec env PYTHONPATH=. "$PYTHON" tests/gpu/check.py "$@"
