#!/bin/sh
# Computes every golden case anew and says which committed file would change (exit code 1 then).
# With --write the files that differ beyond rounding are replaced. Needs python3-torch and
# python3-torchvision; PYTHON names another interpreter that has them.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-/usr/bin/python3}

case "${1-}" in
"") mode=compare ;;
--write) mode=write ;;
*) echo "usage: generate.sh [--write]" >&2; exit 2 ;;
esac
"$python" -c 'import torch, torchvision, numpy' 2>/dev/null || {
    echo "generate.sh: $python lacks torch or torchvision (install python3-torch and" \
        "python3-torchvision, or set PYTHON)" >&2
    exit 2
}
mkdir -p cases
PYTHONDONTWRITEBYTECODE=1 exec "$python" generate.py "$mode" cases
