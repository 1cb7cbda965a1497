"""The example of docs/howto/explain.md: simulated people with four edges that differ, trained on and explained.

Run as `python docs/make_explain_page.py`; it writes docs/_static/explain-*.png. Names and places of the regions are
rough ones of the human cortex; the people are drawn, and nothing here says anything of real brains.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np

import rmixup
from rmixup.cli import run

HERE = Path(__file__).parent
PICTURES = ("top_edges", "systems", "connectome")
# Three regions in the left hemisphere and their mirror images, by system; millimetres in MNI space.
REGIONS = {
    "Visual": {"V1": (-8, -92, 2), "LateralOccipital": (-40, -78, -4), "Cuneus": (-6, -80, 26)},
    "Somatomotor": {"M1": (-38, -24, 58), "S1": (-48, -22, 46), "Auditory": (-52, -20, 8)},
    "DorsalAttention": {"FEF": (-26, -6, 54), "IPS": (-28, -58, 50), "SPL": (-18, -66, 56)},
    "Salience": {"Insula": (-36, 18, 2), "dACC": (-5, 20, 34), "Supramarginal": (-58, -36, 28)},
    "Limbic": {"OFC": (-24, 32, -14), "TemporalPole": (-38, 10, -32), "Subgenual": (-5, 24, -10)},
    "Control": {"dlPFC": (-42, 30, 30), "IPL": (-46, -52, 48), "Precuneus": (-8, -70, 42)},
    "Default": {"PCC": (-6, -50, 28), "mPFC": (-6, 54, 12), "Angular": (-46, -66, 30)},
}
# What patients have more of (+) or less of (-).
EFFECTS = {
    ("LH_Salience_Insula", "LH_Default_PCC"): 0.16,
    ("RH_Salience_Insula", "RH_Default_PCC"): 0.16,
    ("LH_Salience_dACC", "LH_Default_mPFC"): 0.16,
    ("LH_Default_PCC", "LH_Default_mPFC"): -0.16,
}
PEOPLE, FRAMES = 240, 150


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cohort, model, out = (Path(folder) / name for name in ("cohort", "model", "explanation"))
        simulated().save(cohort)
        assert run(["train", str(cohort), "--groups", "site", "--backbone", "linear", "--out", str(model)]) == 0
        assert run(["explain", str(model), str(cohort), "--out", str(out)]) == 0
        for name in PICTURES:
            shutil.copyfile(out / f"{name}.png", HERE / "_static" / f"explain-{name.replace('_', '-')}.png")


def simulated() -> rmixup.Networks:
    """People of two kinds whose correlations differ in four edges alone."""
    names, places = regions()
    drawn = rmixup.simulate(n_subjects=PEOPLE, n_nodes=len(names), n_frames=FRAMES, effect=0.0, n_sites=2)
    patient = drawn.y == 1
    # Shrunk, so that there is room for an effect: every matrix stays positive definite.
    matrices = 0.7 * np.array(drawn.matrices) + 0.3 * np.eye(len(names))
    for (a, b), size in EFFECTS.items():
        i, j = names.index(a), names.index(b)
        matrices[patient, i, j] += size
        matrices[patient, j, i] += size
    assert np.linalg.eigvalsh(matrices).min() > 0
    table = drawn.table.drop(columns="class").assign(diagnosis=np.where(patient, "patient", "control"))
    return rmixup.Networks(
        matrices, table["diagnosis"].to_numpy(str), drawn.subjects, drawn.groups, names, coordinates=places,
        target="diagnosis", table=table,
    )  # fmt: skip


def regions() -> tuple[list[str], list[tuple[int, int, int]]]:
    names, places = [], []
    for system, own in REGIONS.items():
        for side, sign in (("L", 1), ("R", -1)):
            names += [f"{side}H_{system}_{region}" for region in own]
            places += [(sign * x, y, z) for x, y, z in own.values()]
    return names, places


if __name__ == "__main__":
    main()
