"""Connect to the entry's Ray cluster, run a few tasks there, and say what the cluster has."""

import argparse
import time

import ray

from paceline import emit


@ray.remote
def square(number: int) -> int:
    return number * number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", help="where the results go")
    parser.add_argument("--tasks", type=int, default=4)
    args = parser.parse_args()
    emit.params({"tasks": args.tasks})

    ray.init(log_to_driver=False)  # RAY_ADDRESS says where
    resources = ray.cluster_resources()
    started = time.perf_counter()
    with emit.task("squares", items=args.tasks):
        total = sum(ray.get([square.remote(number) for number in range(args.tasks)]))
    emit.metrics(
        {
            "is_success": total == sum(number * number for number in range(args.tasks)),
            "cluster_cpus": resources.get("CPU", 0),
            "cluster_gpus": resources.get("GPU", 0),
            "cluster_nodes": len(ray.nodes()),
            "object_store_bytes": resources["object_store_memory"],
            "tasks_per_sec": args.tasks / (time.perf_counter() - started),
        }
    )


if __name__ == "__main__":
    main()
