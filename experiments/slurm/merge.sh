#!/bin/bash
# The parts of an array job as one run with its report:
#
#   sbatch --dependency=afterany:JOB experiments/slurm/merge.sh my.lua
#SBATCH --job-name=coppice-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=00:30:00
set -eu
script=${1:?which script? merge.sh my.lua}
name=$(basename "$script" .lua)
parts=${PARTS:-runs/$name.parts}
exec "${COPPICE:-build/coppice}" merge "$parts"/*/ --out "${OUT:-runs/$name.merged}"
