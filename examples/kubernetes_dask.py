"""Run a study on Kubernetes through dask-kubernetes. Usage: kubernetes_dask.py IMAGE STUDY.toml FOLDER.

The image has stageguard[study,cluster]; FOLDER lies on a volume that this machine and the pods mount alike.
"""

from __future__ import annotations

import subprocess
import sys

from dask_kubernetes.operator import KubeCluster

if __name__ == "__main__":
    image, study, folder = sys.argv[1:]
    with KubeCluster(name="stageguard", image=image, n_workers=8) as cluster:
        command = ["stageguard", "study", "run", study, "--output", folder]
        sys.exit(subprocess.call([*command, "--scheduler", cluster.scheduler_address]))
