"""Run measurements: ``gpu`` a kit, ``genome`` growth of every step, ``dagster`` an instance, else ``measurements``."""

import sys


def main() -> None:
    # A machine with an accelerator may have neither Dagster nor the readers of VCF.
    if sys.argv[1:2] == ["gpu"]:
        from benchmarks.gpu.kit import main as run_kit

        run_kit(sys.argv[2:])
        return
    if sys.argv[1:2] == ["genome"]:
        from benchmarks.genome.command import main as run_genome

        run_genome(sys.argv[2:])
        return
    if sys.argv[1:2] == ["dagster"]:
        from benchmarks.orchestration.command import main as run_dagster

        run_dagster(sys.argv[2:])
        return
    from benchmarks.measurements import main as print_tables

    print_tables()


if __name__ == "__main__":
    main()
