"""Decode a cohort on Kubernetes through dask-kubernetes. Usage: kubernetes_dask.py IMAGE COHORT FOLDER.

The image has stageguard[formats,cluster]; COHORT and FOLDER lie on a volume that this machine and the pods
mount alike.
"""

from __future__ import annotations

import sys

from dask_kubernetes.operator import KubeCluster
from distributed import Client

import stageguard as sg

if __name__ == "__main__":
    image, source, output = sys.argv[1:]
    with KubeCluster(name="stageguard", image=image, n_workers=0) as cluster:
        cluster.adapt(minimum=0, maximum=8)
        with Client(cluster) as client:
            result = sg.decode_cohort(source, "human-psg-5", output, scheduler=client, wait_minutes=15)
    print(result)
    sys.exit(bool(result.failures))
