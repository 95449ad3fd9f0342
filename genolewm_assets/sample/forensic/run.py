"""The simulated run folder: ladder, controls and samples as files, and what was put into each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from genolewm_assets.sample.forensic.kit import KIT, Genotype, KitLocus, bin_text, draw_genotype, panel_text
from genolewm_assets.sample.forensic.traces import Signal, injection_bytes, simulate_traces
from genolewm_assets.sample.genome import Draws

RUN_FOLDER = "2024-01-07_SimPlex12"
PANEL_FILE, BIN_FILE = "SimPlex_12_panel.txt", "SimPlex_12_bins.txt"
#: File that says that nothing more will be written into the folder, and the report of alleles.
COMPLETE, REPORT = "_COMPLETE", "annotations.csv"
#: Height of stutter one repeat below and one above, relative to its allele.
BACK_STUTTER, FORWARD_STUTTER = 0.08, 0.025
_USUAL_RFU, _LADDER_RFU, _DROPPED_RFU, _SATURATED_RFU = 2_600.0, 2_400.0, 95.0, 44_000.0
_CONTROL, _FEMALE, _MALE, _FAINT, _STRONG = range(1, 6)
_KEY = 43


@dataclass(frozen=True, slots=True)
class Truth:
    """What was simulated in one file."""

    #: Role of the file, as ``forensic.runs`` names it.
    role: str
    #: Alleles of the person by locus; empty for a negative control.
    genotype: Genotype
    #: Alleles that are too low to be called, by locus.
    dropped: Mapping[str, tuple[str, ...]]
    #: Loci in which the detector is saturated.
    saturated: tuple[str, ...]

    def expected(self) -> dict[str, tuple[str, ...]]:
        """Return the alleles that a right pipeline calls, by locus of the kit, in order of their sizes."""
        return {
            locus.name: tuple(
                allele
                for allele in dict.fromkeys(self.genotype.get(locus.name, ()))
                if allele not in self.dropped.get(locus.name, ())
            )
            for locus in KIT
        }


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run."""

    #: Bytes of every file of the run folder, by name.
    files: Mapping[str, bytes]
    #: Bytes of the kit's panel and bin file, by name.
    kit_files: Mapping[str, bytes]
    #: What was simulated, by name of the file; files that cannot be used are not among them.
    truth: Mapping[str, Truth]
    #: Reason why a file cannot be used, by name.
    unusable: Mapping[str, str]


def simulate_run() -> SimulatedRun:
    """Return the run: ladder, both controls, two replicas of a person, a faint, a saturated and a failed sample."""
    people = {number: draw_genotype(number) for number in (_CONTROL, _FEMALE, _MALE, _FAINT, _STRONG)}
    faint = {
        "SIM03": people[_FAINT]["SIM03"][:1],
        "SIM09": people[_FAINT]["SIM09"][:1],
        "SIM12": people[_FAINT]["SIM12"],
    }
    # No allele of this person lies where these would appear as pull-up.
    strong = ("SIM05", "SIM08")
    nothing: Mapping[str, tuple[str, ...]] = {}
    truth = {
        "A01_ladder.hid": Truth("ladder", {locus.name: locus.ladder for locus in KIT}, nothing, ()),
        "A02_positive.hid": Truth("positive", people[_CONTROL], nothing, ()),
        "A03_NTC.hid": Truth("negative", nothing, nothing, ()),
        "A04_S1_1.hid": Truth("sample", people[_FEMALE], nothing, ()),
        "A05_S1_2.hid": Truth("sample", people[_FEMALE], nothing, ()),
        "A06_S2.hid": Truth("sample", people[_MALE], nothing, ()),
        "A07_S3.hid": Truth("sample", people[_FAINT], faint, ()),
        "A08_S4.hid": Truth("sample", people[_STRONG], nothing, strong),
    }
    files = {name: _file(name, each, number) for number, (name, each) in enumerate(truth.items(), 1)}
    failed = simulate_traces([], 9, standard=False)
    files["A09_S5.hid"] = injection_bytes(*failed, injection=9, sample="S5", kind="Sample")
    files["plate.txt"] = b"Container Name\tPlate ID\r\nSIM-001\tSIM-001\r\n"
    files[REPORT] = _report({"S2": people[_MALE], "S3": people[_FAINT]})
    files[COMPLETE] = b""
    kit_files = {PANEL_FILE: panel_text(people[_CONTROL]), BIN_FILE: bin_text()}
    unusable = {"A09_S5.hid": "not_sized", "plate.txt": "not_an_instrument_file", COMPLETE: "not_an_instrument_file"}
    return SimulatedRun(files, kit_files, truth, unusable)


def _file(name: str, truth: Truth, injection: int) -> bytes:
    kinds = {"ladder": "Allelic Ladder", "negative": "Negative Control", "positive": "Positive Control"}
    signals = [signal for locus in KIT for signal in _signals(locus, truth, injection)]
    sample = name.removesuffix(".hid").split("_", 1)[1].partition("_")[0]
    raw, analysed = simulate_traces(signals, injection)
    return injection_bytes(raw, analysed, injection=injection, sample=sample, kind=kinds.get(truth.role, "Sample"))


def _signals(locus: KitLocus, truth: Truth, injection: int) -> list[Signal]:
    """Return the peaks of a locus: alleles, and of all but amelogenin and the ladder their stutter."""
    alleles = truth.genotype.get(locus.name, ())
    balance = Draws(_KEY, injection, KIT.index(locus)).uniform(len(alleles))
    heights: dict[float, float] = {}
    for allele, share in zip(alleles, balance.tolist(), strict=True):
        rfu = _height(locus, allele, truth) * (0.85 + 0.15 * share)
        size = locus.size_bp(allele)
        heights[size] = heights.get(size, 0.0) + rfu
        if not locus.is_sex_marker and truth.role != "ladder":
            for at, ratio in ((size - locus.repeat_bp, BACK_STUTTER), (size + locus.repeat_bp, FORWARD_STUTTER)):
                heights[at] = heights.get(at, 0.0) + ratio * rfu
    return [Signal(locus.channel, size, rfu) for size, rfu in sorted(heights.items())]


def _height(locus: KitLocus, allele: str, truth: Truth) -> float:
    if truth.role == "ladder":
        return _LADDER_RFU
    if allele in truth.dropped.get(locus.name, ()):
        return _DROPPED_RFU / truth.genotype[locus.name].count(allele)
    return _SATURATED_RFU if locus.name in truth.saturated else _USUAL_RFU


def _report(people: Mapping[str, Genotype]) -> bytes:
    """Return an allele report, as GeneMapper exports it."""
    lines = ["Sample Name,Marker,Allele 1,Allele 2"]
    lines += [
        f"{sample},{locus},{','.join(alleles)}" for sample, own in people.items() for locus, alleles in own.items()
    ]
    return "\r\n".join([*lines, ""]).encode("ascii")
