#!/usr/bin/env bash
# Runs the coverage-guided fuzzer on each target in fuzz/, with overflow checks and debug
# assertions. It stops at the first input that fails, and prints how to run that input again. The
# corpus stays in fuzz/corpus.
#
#   FUZZ_SECONDS=600 fuzz.sh       for longer than a minute a target
#   FUZZ_TARGETS="hlc" fuzz.sh     only these
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh fuzz
seconds=${FUZZ_SECONDS:-60}
for target in ${FUZZ_TARGETS:-hlc plpgsql}; do
    mkdir -p "fuzz/corpus/$target"
    folders=("fuzz/corpus/$target")
    if [ -d "fuzz/seeds/$target" ]; then folders+=("fuzz/seeds/$target"); fi
    options=(-max_total_time="$seconds" -timeout=10 -max_len=2000 -print_final_stats=1)
    if [ -f "fuzz/$target.dict" ]; then options+=(-dict="fuzz/$target.dict"); fi
    # Without a sanitizer: it would need a nightly compiler, and finds little in safe Rust.
    with_progress "Building the fuzzer for $target" cargo fuzz build --sanitizer none "$target"
    say "Fuzzing $target for $seconds seconds"
    log=$(mktemp)
    if cargo fuzz run --sanitizer none "$target" "${folders[@]}" -- "${options[@]}" >"$log" 2>&1 </dev/null; then
        sed -n 's/^#\([0-9]*\)\tDONE *cov: \([0-9]*\).*/    \1 inputs, \2 edges of the code reached/p' "$log"
        rm -f "$log"
    else
        grep -a -A 60 -m 1 -e panicked -e '^error' -e 'ERROR: libFuzzer' "$log" >&2 || tail -n 60 "$log" >&2
        fail "the fuzzer has found something in $target; all it said is in $log"
    fi
done
