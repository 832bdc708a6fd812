"""What an image is made of, and the key that stands for it."""

import os
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.image import Recipe, web_pages
from nearmetal.lab.image.recipe import FILES, PACKAGES, Modules


def test_the_key_does_not_depend_on_order() -> None:
    assert Recipe(packages=("jq", "curl")).key == Recipe(packages=("curl", "jq", "curl")).key


def test_the_key_tells_recipes_apart(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.write_text("1")
    recipes = [
        Recipe(),
        Recipe(name="other"),
        Recipe(suite="trixie"),
        Recipe(packages=("curl",)),
        Recipe(files=((str(extra), "/opt/extra"),)),
        Recipe(files=((str(extra), "/opt/other"),)),
    ]
    keys = [recipe.key for recipe in recipes]
    extra.write_text("2")
    keys.append(Recipe(files=((str(extra), "/opt/extra"),)).key)
    extra.chmod(0o755)
    keys.append(Recipe(files=((str(extra), "/opt/extra"),)).key)
    assert len(set(keys)) == len(keys)


def test_a_package_of_the_lab_named_again_changes_nothing() -> None:
    assert Recipe(packages=("lighttpd",)).key == Recipe().key
    assert set(PACKAGES) <= set(Recipe().all_packages)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "../lab"}, "no name for an image"),
        ({"name": ".hidden"}, "no name for an image"),
        ({"name": ""}, "no name for an image"),
        ({"suite": "book worm"}, "no Debian suite"),
        ({"suite": "--help"}, "no Debian suite"),
        ({"packages": ("curl; reboot",)}, "no name of a Debian package"),
        ({"packages": ("--no-install",)}, "no name of a Debian package"),
        ({"packages": ("a,b",)}, "no name of a Debian package"),
        ({"files": (("/nonexistent/file", "/opt/x"),)}, "this is no file"),
        ({"files": ((os.devnull, "/opt/x"),)}, "this is no file"),
        ({"files": ((__file__, "opt/x"),)}, "no place for a file"),
        ({"files": ((__file__, "/opt/../../x"),)}, "no place for a file"),
        ({"files": ((__file__, "/opt/"),)}, "no place for a file"),
    ],
)
def test_bad_recipes_are_refused_with_a_remedy(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        Recipe(**arguments)  # type: ignore[arg-type]
    assert raised.value.remedy


def test_pages_have_their_sizes_and_do_not_compress() -> None:
    import zlib

    assert {name: len(web_pages.make_page(name)) for name in web_pages.SIZES} == {
        "1k": 1024,
        "100k": 102400,
        "1m": 1048576,
    }
    assert len(zlib.compress(web_pages.make_page("100k"))) >= 102400
    assert web_pages.make_page("1k") == web_pages.make_page("1k")


def test_the_index_page_has_the_size_of_the_first_study() -> None:
    assert len((FILES / "root/srv/nearmetal/index.html").read_bytes()) == 402


def test_every_module_that_may_be_needed_before_the_root_is_an_early_one() -> None:
    wanted = Modules.of_recipe()
    assert {"virtio_pci", "virtio_blk", "virtio_net", "ext4"} <= set(wanted.early)
    assert {"e1000", "e1000e", "vmxnet3", "8139cp", "ahci"} <= set(wanted.early)
    assert "sch_netem" in wanted.guest


def test_two_files_cannot_lie_at_one_place() -> None:
    with pytest.raises(BadInput, match="two files are to lie at '/opt/x'"):
        Recipe(files=((__file__, "/opt/x"), (__file__, "/opt//x")))
