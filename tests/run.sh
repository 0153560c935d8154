#!/bin/sh
# Runs test programs one after another and adds up what they say:  tests/run.sh OUT PROGRAM...
#
# Each program writes a TAP report to OUT, from which passed, failed and skipped tests are counted (Criterion's own summary leaves
# skips out, and leaks do not fail it: sanitizer logs in OUT do). The last line is the verdict, the exit status too. With
# COPPICE_SHARED or ../shared present, a skipped test that asks for it is a failure: none may hide.
set -u
out=$1
shift
mkdir -p "$out"
rm -f "$out"/*.tap "$out"/*.log.*
export ASAN_OPTIONS="detect_leaks=1:log_path=$out/asan.log:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="log_path=$out/tsan.log:exitcode=0:${TSAN_OPTIONS:-}"
passed=0 failed=0 skipped=0
for program in "$@"; do
    name=$(basename "$(dirname "$program")")-$(basename "$program")
    tap=$out/$name.tap
    started=$(date +%s)
    if ! "$program" --tap="$tap" -j1 --quiet >"$out/$name.out" 2>&1 && [ ! -s "$tap" ]; then
        echo "not ok - $name: died without a report" >"$tap"
    fi
    ok=$(grep -c '^ok ' "$tap") bad=$(grep -c '^not ok' "$tap") skip=$(grep -c '^ok .*# SKIP' "$tap")
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$tap" | head -1)
    # A program that died in the middle reports fewer tests than it planned.
    missing=$((${planned:-0} - ok - bad))
    [ "$missing" -gt 0 ] && bad=$((bad + missing)) && echo "not ok - $name: $missing tests without a report" >>"$tap"
    passed=$((passed + ok - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-40s %4d passed %3d failed %3d skipped  %3d s\n' "$name" $((ok - skip)) "$bad" "$skip" $(($(date +%s) - started))
    grep '^not ok' "$tap"
    [ "$bad" -gt 0 ] && grep -v '^\[.*PASS' "$out/$name.out" | head -60
    grep '^ok .*# SKIP' "$tap" | sed 's/^ok - /skipped: /'
done
for log in "$out"/*.log.*; do
    [ -s "$log" ] || continue
    echo "sanitizer report: $log"
    head -40 "$log"
    failed=$((failed + 1))
done
if [ -d "${COPPICE_SHARED:-../shared}" ] && [ "$skipped" -gt 0 ]; then
    echo "skipped tests although the reference folder is here: counted as failures"
    failed=$((failed + skipped)) skipped=0
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
