"""Writes tests/faults/golden with this rmixup. Run once a schema: what lies there is never rewritten."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from commands import call, write_spec

from rmixup import simulate
from rmixup.files import seal, unseal
from rmixup.study.project import open_study
from rmixup.study.store import Store

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    """Data set, model, predictions, study, and what was in them."""
    if GOLDEN.exists():
        sys.exit(f"{GOLDEN} is there already, and must stay as the older rmixup wrote it")
    GOLDEN.mkdir()
    ds = simulate(n_subjects=40, n_nodes=4, n_frames=9, seed=1)
    ds = ds.join(pd.DataFrame({"AGE": np.arange(40.0) / 8}, index=pd.Index(ds.subjects, name="subject", dtype=object)))
    ds.save(GOLDEN / "cohort")
    assert call("train", GOLDEN / "cohort", "--backbone", "linear", "--out", GOLDEN / "model")[0] == 0
    assert call("predict", GOLDEN / "model", GOLDEN / "cohort", "-o", GOLDEN / "predictions.tsv")[0] == 0
    spec = write_spec(
        GOLDEN / "s.toml", GOLDEN / "cohort", methods='["rmixup"]', epochs=2, more="keep_weights = true\n"
    )
    code, _, said = call("study", "run", spec, "--out", GOLDEN / "study", "--processes", "0")
    assert code == 0, said
    shutil.rmtree(GOLDEN / "study" / "claims", ignore_errors=True)
    store: Store = open_study(GOLDEN / "study").store
    expected = {
        "cohort": {
            "subjects": ds.subjects.tolist(),
            "labels": ds.label_names().tolist(),
            "ages": ds.table["AGE"].tolist(),
            "content_hash": ds.content_hash(),
            "first matrix": np.array(ds.matrices)[0].tolist(),
        },
        "study": {
            "hashes": store.hashes(),
            "auroc": {key: store.read(key).scores["auroc"] for key in store.done()},
        },
    }
    without_places()
    (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def without_places() -> None:
    """What is kept names no folder of the machine that wrote it."""
    spec, sealed = GOLDEN / "s.toml", GOLDEN / "study" / "study.json"
    spec.write_text(spec.read_text().replace(str(GOLDEN / "cohort"), "cohort"))
    told = unseal(sealed)
    told["spec"]["data"]["path"] = "cohort"
    sealed.write_bytes(seal(told))


if __name__ == "__main__":
    main()
