"""``genolewm audit`` and ``genolewm audit plant``: what they print and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genolewm_assets.console import out
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld


def test_clean(audited: AuditedWorld, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--reference", audited.fasta, "--clinvar", audited.vcf, "--tuples", 100)
    assert run(monkeypatch, "audit", audited.package, *words) == 0
    first = capfd.readouterr().out.splitlines()[0]
    assert first == (
        "No held-out sequence, allele or label was found in 55 training windows and 2,272 tuples drawn from them; "
        "planted leaks found: not measured (--power)."
    )
    assert run(monkeypatch, "audit", "--json", "--power", 2, audited.package, *words) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["verdict"] == "clean"
    assert {row["findings"] for row in report["results"]} == {0}
    power = {one["plant"]: one["planted"] for row in report["results"] for one in row["power"]}
    assert len(power) == 20
    assert set(power.values()) == {2}
    assert report["headline"].endswith(" of 40.")


def test_leak_and_uncertain(
    audited: AuditedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "planted"
    words = ("audit", "plant", audited.package, folder, "--reference", audited.fasta)
    assert run(monkeypatch, *words, "--kind", "copy_95", "--kind", "padded_allele") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["copy_95", "padded_allele", "Audit it"]
    assert run(monkeypatch, *words) == 2
    assert "exists already" in capfd.readouterr().err
    again = lines[-1].removeprefix("Audit it: genolewm ").split()
    assert run(monkeypatch, *again, "--tuples", 0) == 5
    shown = capfd.readouterr().out
    assert "Leaks were found (1 of held sequence, 1 of held allele) in 56 training windows and 0 tuples" in shown
    assert "; not certain: recreated allele, false edit, wrong label; " in shown
    assert "planted.copy_95" in shown
    assert run(monkeypatch, "audit", audited.package, "--reference", audited.fasta, "--tuples", 0) == 6
    capfd.readouterr()
    assert run(monkeypatch, "audit", "plant", audited.package, tmp_path / "x", "--kind", "no", *words[4:]) == 2
    assert "--kind no: is unknown: expected one of alias_contig" in capfd.readouterr().err


def test_a_root_without_a_fasta(
    audited: AuditedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "audit", audited.package) == 4
    assert "has no reference FASTA beside it" in capfd.readouterr().err
    assert run(monkeypatch, "audit", tmp_path) == 4
    assert "Name the folder of a package" in capfd.readouterr().err


def test_alleles_are_printed_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    out.print("chr21:951:T:A: source gnomad", markup=False, soft_wrap=True)
    assert capfd.readouterr().out == "chr21:951:T:A: source gnomad\n"
