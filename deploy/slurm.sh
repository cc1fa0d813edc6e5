#!/usr/bin/env bash
# A Dask cluster inside a Slurm job, one worker a GPU, and a command that runs on it:
#
#   sbatch deploy/slurm.sh python deploy/job.py
#   sbatch --nodes=4 deploy/slurm.sh mgrec linear s.zarr t.zarr -o w.zarr
#
# The command gets `--cluster FILE` appended. The folder of the job must be on a file system that
# every node sees. Without GPUs: MGREC_WORKER="dask worker --nthreads 1", and no --gpus-per-task.
#SBATCH --job-name=mgrec
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
set -euo pipefail

here=${SLURM_SUBMIT_DIR:-$PWD}
cluster=$here/mgrec-$SLURM_JOB_ID.json
read -ra worker <<<"${MGREC_WORKER:-dask cuda worker}"

# Workers first: each of them would log a traceback if it lost its scheduler.
stop() {
  local process
  for process in ${workers:-} ${scheduler:-}; do
    kill "$process" 2>/dev/null || true
    wait "$process" || true
  done
  rm -f "$cluster"
}
trap stop EXIT

dask scheduler --port 0 --dashboard-address localhost:0 --scheduler-file "$cluster" &
scheduler=$!
until [[ -s $cluster ]]; do
  jobs -r | grep -q . || { echo "the scheduler did not start" >&2; exit 1; }
  sleep 0.2
done

# Each task sees its own GPU alone. --death-timeout ends workers whose scheduler is gone.
srun --kill-on-bad-exit=0 "${worker[@]}" --scheduler-file "$cluster" --death-timeout 60 \
  --local-directory "${TMPDIR:-/tmp}" --dashboard-address localhost:0 &
workers=$!

python "$here/deploy/cluster.py" "$cluster" --workers "$SLURM_NTASKS"
"$@" --cluster "$cluster"
