#!/bin/bash
#SBATCH --job-name=dapo-0123456789abcdef
#SBATCH --comment=longhaul:0123456789abcdef0123456789abcdef:1:db6a8720dc647812
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --time=725
#SBATCH --no-requeue
#SBATCH --dependency=singleton
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --output=/shared/longhaul/runs/paper-72b/jobs/dapo-1/0003/0/attempts/1/stdout.log
#SBATCH --partition=gpu
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=960G
#SBATCH --exclusive
unset SLURM_JWT
export OMP_WAIT_POLICY=PASSIVE
export PYTHONPATH=/shared/longhaul-package/trainer
export LONGHAUL_LAUNCHER_HANDLE=dapo-0123456789abcdef
export MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --export=ALL --kill-on-bad-exit=1 bash -c 'exec /shared/longhaul-python/bin/python -m torch.distributed.run --nnodes=16 --nproc-per-node=8 --max-restarts=0 --log-dir=/dev/null --shutdown-timeout=45 "--master-addr=$MASTER" --master-port=23743 "--node-rank=$SLURM_NODEID" -m longhaul_trainer step --spec /shared/longhaul/runs/paper-72b/jobs/dapo-1/0003/0/spec.1.json' &
task=$!
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1 TERM
while kill -0 "$task" 2>/dev/null; do wait "$task"; code=$?; done
exit "$code"
