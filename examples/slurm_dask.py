"""Run a study on Slurm: workers are jobs that dask-jobqueue submits. Usage: slurm_dask.py STUDY FOLDER."""

from __future__ import annotations

import subprocess
import sys

from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    with SLURMCluster(cores=1, processes=1, memory="4GB", walltime="04:00:00") as cluster:
        cluster.scale(jobs=16)  # one core each
        study, folder = sys.argv[1:]
        command = ["stageguard", "study", "run", study, "--output", folder]
        sys.exit(subprocess.call([*command, "--scheduler", cluster.scheduler_address]))
