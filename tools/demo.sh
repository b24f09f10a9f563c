#!/usr/bin/env bash
# The main job, step by step, in .demo/: a local channel, an environment, its verification, a drifted twin, a diff.
# Everything is real: conda packages made from this machine's interpreter and wheels, a real torch, no conda.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
export ENVKIT_ENVS_PATH="$PWD/.demo/envs"
mkdir -p .demo
cd .demo

show() {
    local line='$ envkit' word
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./:=@%+,-]+$ ]] || word="'$word'"
        line+=" $word"
    done
    printf '\n%s\n' "$line"
    envkit "$@"
}

# An interpreter of Python 3.11 where there is one: its torch wheel is a small CPU build.
python=$("../.venv/bin/python" ../tools/interpreters.py 3.11)
echo "== a channel from $("$python" --version) and wheels"
if [ ! -e channel/.made ]; then
    show channel make channel --python "$python" -q \
        --wheel torch==2.13.0 --wheel numpy==2.2.6 --wheel numpy==1.24.4 \
        --wheel pillow==11.3.0 --wheel pillow==9.5.0 --wheel "setuptools<82" --wheel pip
    touch channel/.made
else
    echo "(channel/ is there from an earlier run)"
fi

echo
echo "== an environment: environment.yml, conda-lock.yml, build, activation, probes, benchmark, report"
show create -n demo --cuda cpu --python 3.11 --channel ./channel -d demo -q
show run -n demo -- python -c 'import sys, torch; print(torch.__version__, "in", sys.prefix.split("/")[-1])'

echo
echo "== a teammate verifies it"
show verify demo/environment.yml -q

echo
echo "== a second one, in which NumPy and Pillow drifted"
show create -n drifted --cuda cpu --python 3.11 --channel ./channel -d drifted -q \
    --add numpy=1.24.4 --add pillow=9.5.0

echo
echo "== what differs, and what it does"
show diff demo/environment.report.json drifted/environment.report.json || echo "(exit status $?: they differ)"
