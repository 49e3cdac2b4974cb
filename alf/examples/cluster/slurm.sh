#!/bin/bash
# Trains on a Slurm cluster, from the folder of the repository: sbatch examples/cluster/slurm.sh
#
# The learner is on the first node, the collectors are on the others. All nodes see this folder, with ALF in
# its .venv (make install), and the home directory with Ray's token: `ray get-auth-token --generate`, once.
# Submit the same job again, and it continues from the last checkpoint.

#SBATCH --job-name=alf
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
# alf train gets SIGTERM two minutes before the time is over, and saves.
#SBATCH --signal=B:TERM@120

set -euo pipefail

source .venv/bin/activate
export RAY_worker_niceness=0  # else the collectors have a nice value of 15
export RAY_AUTH_MODE=token  # else anyone who reaches the ports has control of the nodes

# This script runs on the first node.
read -r head < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
read -r ip _ < <(hostname -I)
address=$ip:6379
workers=$((SLURM_JOB_NUM_NODES - 1))
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# The head has no CPUs for Ray: they are the learner's.
ray start --head --port=6379 --num-cpus=0 --include-dashboard=false --block &
for _ in $(seq 60); do
  ray status --address="$address" >/dev/null 2>&1 && break
  sleep 1
done
srun --nodes="$workers" --ntasks="$workers" --exclude="$head" \
  ray start --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" --block &

train=
trap 'kill -TERM $train 2>/dev/null || true' TERM
alf train examples/impala_cartpole.gin \
  --ray_address="$address" \
  --output=runs/slurm \
  --num_envs=0 \
  --RayCollectors.num_envs=256 \
  --num_collectors=$((workers * SLURM_CPUS_PER_TASK)) &
train=$!
status=0
wait "$train" || status=$?
while kill -0 "$train" 2>/dev/null; do  # a signal has ended the wait, not alf train
  status=0
  wait "$train" || status=$?
done
exit "$status"
