"""Generated splits against the published files, which were written by other people's programs."""

import numpy as np
import pytest

from vadam_paper import data

UCI = {
    "boston": (455, 51),
    "concrete": (927, 103),
    "energy": (691, 77),
    "kin8nm": (7373, 819),
    "naval": (10741, 1193),
    "power": (8611, 957),
    "wine": (1439, 160),
    "yacht": (277, 31),
}
FIXED = {"australian": (345, 345), "breast-cancer": (341, 342), "usps": (7291, 2007)}
SPLIT = [name for name, row in data.registry.DATASETS.items() if row.split_rule]


@pytest.mark.parametrize("name", UCI)
def test_the_20_uci_splits_equal_the_files(name, published):
    (file,) = data.registry.find(name).on_disk[0].files
    with np.load(published(file.path)) as archive:
        for k, split in enumerate(data.splits(name)):
            np.testing.assert_array_equal(split.train, archive["index_train"][k])
            np.testing.assert_array_equal(split.test, archive["index_test"][k])


def test_the_yacht_splits_equal_gals_text_files(published):
    folder = published("uci_raw/yacht/data")
    for k, split in enumerate(data.splits("yacht")):
        np.testing.assert_array_equal(split.train, np.loadtxt(folder / f"index_train_{k}.txt"))
        np.testing.assert_array_equal(split.test, np.loadtxt(folder / f"index_test_{k}.txt"))


@pytest.mark.parametrize("name", ["australian", "breast-cancer"])
def test_presplits_equal_the_files(name, published):
    (split,) = data.splits(name)
    for part, rows in zip(("train", "test"), split, strict=True):
        np.testing.assert_array_equal(rows, np.loadtxt(published(f"libsvm/{name}_scale.presplit_{part}.txt")))


def test_the_20_usps_permutations_equal_the_file(published):
    with np.load(published("usps/usps_3vs5.npz")) as archive:
        for permutation, split in zip(archive["perm"], data.splits("usps-3vs5"), strict=True):
            np.testing.assert_array_equal(np.concatenate(split), permutation)
            assert len(split.train) == 770


@pytest.mark.parametrize(("name", "sizes"), [*UCI.items(), *FIXED.items()])
def test_sizes(name, sizes):
    splits = data.splits(name)
    assert len(splits) == (20 if name in UCI else 1)
    assert {(len(split.train), len(split.test)) for split in splits} == {sizes}


@pytest.mark.parametrize("name", SPLIT)
def test_every_split_is_disjoint_and_covers_all_rows(name):
    for split in data.splits(name):
        assert split.train.dtype == split.test.dtype == np.int64
        np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(data.registry.find(name).n))


@pytest.mark.parametrize("name", ["war-and-peace", "murphy", "cubic-gap"])
def test_sets_without_a_published_split_say_so(name):
    with pytest.raises(LookupError, match=f"'{name}' has no published train/test split"):
        data.splits(name)
