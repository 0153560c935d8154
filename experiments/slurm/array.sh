#!/bin/bash
# One experiment as an array job: every task takes each n-th prompt, into a folder of its own.
#
#   sbatch --array=1-8 experiments/slurm/array.sh my.lua limit=1000
#
# Two minutes before its time is over a task is asked to stop: it stores what it has and queues itself again, and
# goes on where it was. So does a task whose node failed.
#SBATCH --job-name=coppice
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#SBATCH --output=%x-%A_%a.log
set -u
script=${1:?which script? sbatch --array=1-8 array.sh my.lua key=value …}
shift
coppice=${COPPICE:-build/coppice}
parts=${PARTS:-runs/$(basename "$script" .lua).parts}

child= stop=
trap 'stop=1; [ -z "$child" ] || kill -TERM $child' INT TERM
# in the background: bash hands a signal on only between commands. SIGTERM, as bash has its children ignore SIGINT
"$coppice" run "$script" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --out "$parts/$SLURM_ARRAY_TASK_ID" "$@" &
child=$!
[ -z "$stop" ] || kill -TERM $child # it came before there was a child to hand it to
wait $child
status=$?
while kill -0 $child 2>/dev/null; do # the wait was ended by the signal, not by the child
    wait $child
    status=$?
done
if [ $status -eq 130 ] || [ $status -eq 143 ]; then # stopped, and everything so far is stored
    scontrol requeue "$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID"
    exit 0
fi
exit $status
