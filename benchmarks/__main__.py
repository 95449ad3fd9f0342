"""Run measurements: ``python -m benchmarks gpu`` the kit for an accelerator, else the tables of ``measurements``."""

import sys


def main() -> None:
    # A machine with an accelerator may have neither Dagster nor the readers of VCF.
    if sys.argv[1:2] == ["gpu"]:
        from benchmarks.gpu.kit import main as run_kit

        run_kit(sys.argv[2:])
        return
    from benchmarks.measurements import main as print_tables

    print_tables()


if __name__ == "__main__":
    main()
