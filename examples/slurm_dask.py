"""Decode a cohort on Slurm: workers are jobs that dask-jobqueue submits. Usage: slurm_dask.py COHORT FOLDER.

COHORT is a folder, a sample list, a table or a Parquet dataset. Both lie where all nodes see them.
"""

from __future__ import annotations

import sys

from dask_jobqueue import SLURMCluster
from distributed import Client

import stageguard as sg

if __name__ == "__main__":
    source, output = sys.argv[1:]
    with SLURMCluster(cores=1, processes=1, memory="4GB", walltime="04:00:00") as cluster:
        cluster.adapt(minimum=0, maximum=100)  # one core each, as long as there is work
        with Client(cluster) as client:
            result = sg.decode_cohort(source, "human-psg-5", output, scheduler=client, wait_minutes=60)
    print(result)
    sys.exit(bool(result.failures))
