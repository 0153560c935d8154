#!/bin/sh
# Includes go one way: a room includes what stands before it in the list, never what stands after it; kernels includes nothing of ours
# outside itself; only lua/ includes lua.h; core takes kernels/ops.h alone; tests never include a .c file. Prints each offence.
set -u
status=0
offence() {
    echo "$1: includes $2: $3"
    status=1
}
rooms="kernels core/base core/sandbox core/files core/text core/cache core/model core/cycle core/proof core/trace algorithms lua"
place() { # the number of the room that a path lies in, 99 outside of all
    n=0
    for room in $rooms; do
        n=$((n + 1))
        case $1 in "$room"/*) echo $n && return ;; esac
    done
    echo 99
}
for file in $(find kernels core algorithms lua -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort); do
    here=$(place "$file")
    for include in $(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$file"); do
        case $include in */*) ;; *) offence "$file" "$include" "write the path from the root" && continue ;; esac
        there=$(place "$include")
        [ "$there" -le "$here" ] || offence "$file" "$include" "that room stands above this one"
        case $file,$include in
        core/*,kernels/ops.h) ;;
        core/*,kernels/* | algorithms/*,kernels/cpu/*) offence "$file" "$include" "core sees kernels/ops.h only" ;;
        esac
    done
    case $file in lua/*) ;; *)
        if grep -qE '^ *# *include <(lua|lauxlib|lualib)\.h>' "$file"; then offence "$file" "lua.h" "only lua/ does"; fi ;;
    esac
done
for file in $(find tests -name '*.[ch]'); do
    if grep -qE '^ *# *include ".*\.c"' "$file"; then offence "$file" "a .c file" "tests link, they do not include"; fi
done
exit $status
