"""Whether a comparison of what is read and written is one of two disks."""

from typing import Any

import pytest

from nearmetal.analysis.results import Contrast
from nearmetal.model import Study
from nearmetal.store.manifest import MachineFacts
from tests.analysis_inputs import codes, manifest, only, run, whole_run

FILES = {"kind": "sysbench", "test": "fileio", "mode": "seqwr"}


def contrast(workload: dict[str, Any], *lies_on: str | None) -> Contrast:
    """Of docker against host, each of which lies on this."""
    of = manifest()
    (web,) = of.study.model_dump(mode="json", by_alias=True)["workloads"]
    study = Study.model_validate({**of.study.model_dump(mode="json"), "workloads": [{"name": web["name"], **workload}]})
    told = tuple(
        MachineFacts(
            treatment={"environment": name},
            role="server",
            facts={"kernel": {}} if disk is None else {"disk": {"lies_on": disk}},
        )
        for name, disk in zip(("host", "docker"), lies_on, strict=True)
    )
    of = of.model_copy(update={"study": study, "fairness": told})
    return only(run(of, whole_run(of, lambda *_: 1.0)))


def test_of_files_on_unlike_disks_both_are_told() -> None:
    found = contrast(FILES, "ext4 on /dev/vda", "tmpfs")
    (warning,) = (one for one in found.warnings if one.code == "disks-unlike")
    assert warning.text == (
        "its files lie on tmpfs, the reference's on ext4 on /dev/vda: that alone may be what makes the difference"
    )


@pytest.mark.parametrize(
    ("workload", "lies_on"),
    [
        (FILES, ("tmpfs", "tmpfs")),
        (FILES, ("tmpfs", None)),
        ({"kind": "sysbench", "test": "cpu"}, ("ext4 on /dev/vda", "tmpfs")),
        ({"kind": "http"}, ("ext4 on /dev/vda", "tmpfs")),
    ],
)
def test_nothing_is_said_where_no_disk_can_matter(
    workload: dict[str, Any], lies_on: tuple[str | None, str | None]
) -> None:
    assert "disks-unlike" not in codes(contrast(workload, *lies_on))
