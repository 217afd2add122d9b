"""What of PyTorch's table of operations tapegrad reproduces: ``python -m tests.opinfo.report --help``.

One line per operation: samples that passed of those tried, at each stage, then the first failure.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .compare import STAGES, Verdict, check, check_error, orders
from .samples import TABLE, TIERS, dtypes_of, samples

COLUMNS = (*STAGES, "errors")


def verdicts_of(name: str, limit: int | None) -> Iterator[tuple[str, Verdict]]:
    """All verdicts on an operation, each with a description of its sample."""
    info = TABLE[name]
    for dtype in dtypes_of(info):
        kind = str(dtype).removeprefix("torch.")
        for number, source in samples(info, dtype, limit):
            for verdict in check(name, info, dtype, source):
                yield f"{kind} sample {number}", verdict
    if info.error_inputs_func is not None:
        for number, wrong in enumerate(info.error_inputs("cpu")):
            yield f"error sample {number}", check_error(info, wrong)


class TooLong(Exception):
    """An operation took more time than is given to one."""


def _ring(*unused: Any) -> None:
    raise TooLong("the operation took too long")


def line_of(
    name: str, limit: int | None, seconds: int, every: bool, counts: Counter[tuple[str, str]]
) -> tuple[str, bool]:
    """The report's line, and whether everything passed; the verdicts are counted in ``counts``."""
    failures: dict[str, list[str]] = {}  # what went wrong -> where
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(seconds)
    try:
        for where, verdict in verdicts_of(name, limit):
            counts[verdict.stage, verdict.outcome] += 1
            if verdict.outcome == "failed":
                what = f"{verdict.stage}: {' '.join(verdict.text.split())[:300]}"
                failures.setdefault(what, []).append(where)
    except Exception as err:  # the sample generator itself failed, or time is up
        failures[f"{type(err).__name__}: {err}"] = ["the samples themselves"]
        counts["forward", "failed"] += 1
    finally:
        signal.alarm(0)
    cells = []
    for stage in COLUMNS:
        passed, failed = counts[stage, "passed"], counts[stage, "failed"]
        cells.append(f"{passed}/{passed + failed}" if passed + failed else "-")
    excluded = counts["forward", "excluded"]
    text = (
        f"{name:48} " + " ".join(f"{c:>9}" for c in cells) + (f"  ({excluded} excluded)" if excluded else "")
    )
    for what, places in list(failures.items())[: None if every else 1]:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        text += f"\n      {what} [{places[0]}{more}]"
    good = not any(n for (stage, outcome), n in counts.items() if outcome == "failed" and stage != "errors")
    return text, good


def main(arguments: list[str]) -> int:
    """Print the report; the exit status tells whether all operations asked for passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.report", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="operations (default: all of the tiers), or parts of names with --match"
    )
    parser.add_argument(
        "--match", action="store_true", help="take every operation whose name contains one of the names"
    )
    parser.add_argument("--tier", choices=[*TIERS, "all"], default="all")
    parser.add_argument("--samples", type=int, default=None, help="at most so many samples per dtype")
    parser.add_argument("--seconds", type=int, default=120, help="time for one operation")
    parser.add_argument("--every", action="store_true", help="show every kind of failure, not only the first")
    parser.add_argument(
        "--record", type=pathlib.Path, help="write what passed to a file, for the documentation"
    )
    parser.add_argument("--failing", action="store_true", help="show only operations that fail")
    given = parser.parse_args(arguments)
    status = 0
    passed: dict[str, dict[str, list[int]]] = {}
    for tier, listed in TIERS.items():
        chosen = [n for n in listed if wanted(n, given.names, given.match)]
        if given.tier not in (tier, "all") or not chosen:
            continue
        print(f"{tier + ' tier':48} " + " ".join(f"{c:>9}" for c in COLUMNS), flush=True)
        complete, started = 0, time.perf_counter()
        for name in chosen:
            counts: Counter[tuple[str, str]] = Counter()
            text, good = line_of(name, given.samples, given.seconds, given.every, counts)
            passed[name] = _passed(counts)
            complete += good
            if not (good and given.failing):
                print(text, flush=True)
        print(
            f"{tier} tier: {complete} of {len(chosen)} complete, {time.perf_counter() - started:.0f} s\n",
            flush=True,
        )
        status |= complete != len(chosen)
    if given.record:
        record = {"orders": dict(sorted(orders.items())), "samples": passed}
        given.record.write_text(json.dumps(record, indent=1) + "\n")
    return status


def _passed(counts: Counter[tuple[str, str]]) -> dict[str, list[int]]:
    """Per stage that was tried: samples that passed, and how many there were."""
    found = {}
    for stage in COLUMNS:
        good, bad = counts[stage, "passed"], counts[stage, "failed"]
        if good + bad:
            found[stage] = [good, good + bad]
    return found


def wanted(name: str, names: list[str], parts: bool) -> bool:
    return not names or name in names or (parts and any(n in name for n in names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
