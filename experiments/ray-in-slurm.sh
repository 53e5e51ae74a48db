#!/bin/sh
#SBATCH --job-name=tracekit-ray
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=02:00:00
# An experiment on Ray inside an allocation of Slurm: a head on the first node, a worker on each further one.
#   sbatch experiments/ray-in-slurm.sh jobs.swf --models lublin,sessions -o run
# The words after the script are those of `tracekit experiment`. Change the lines above as your site needs.
set -eu
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
port=$((20000 + SLURM_JOB_ID % 10000))
cpus=${SLURM_CPUS_ON_NODE:-1}
common="--block --disable-usage-stats --num-cpus=$cpus --object-store-memory=${RAY_STORE:-200000000}"
export RAY_TMPDIR="${TMPDIR:-/tmp}"
# A token of this job's own: others on these machines cannot send it work, and a token in the home folder does not get in the way.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" ray start --head --port="$port" $common &
tries=0
until ray health-check --address "$address:$port" >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || { echo "Ray did not start on $first" >&2; exit 1; }
  sleep 1
done
others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then
  srun --overlap --nodes="$others" --ntasks="$others" --exclude="$first" ray start --address="$address:$port" $common &
fi
tracekit experiment "$@" --engine ray --address "$address:$port"
