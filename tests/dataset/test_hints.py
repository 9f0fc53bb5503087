"""Hints at label noise: each way of being wrong is named with file and line, and agreement is quiet."""

import json
from pathlib import Path

import pytest

from diag.cli import main
from diag.dataset.audit import Audit, audit
from diag.dataset.hints import Hints, Predicted, label_hints
from diag.dataset.resolve import resolve
from diag.errors import InputError
from diag.stages.hints import class_map, find_weights, with_hints
from tests.dataset.conftest import Maker
from tests.dataset.test_audit_images import photos

__all__ = ["photos"]

CAT, DOG = (0.3, 0.3, 0.2, 0.2), (0.7, 0.7, 0.2, 0.2)
SOUND = "0 0.3 0.3 0.2 0.2\n1 0.7 0.7 0.2 0.2\n"


def row(c: int, confidence: float, box: tuple[float, ...]) -> list[float]:
    return [c, confidence, *box]


SEEN = [row(0, 0.9, CAT), row(1, 0.8, DOG)]


def hinted(
    make_set: Maker, first: str | None, predicted: list[list[float]], **other: list[list[float]]
) -> tuple[Audit, Hints]:
    """One image whose label is `first` among twenty on which model and labels agree."""
    yaml = make_set({"train": [first, *[SOUND] * 20], "val": [SOUND]})
    spec = resolve(str(yaml), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    found = audit(spec)
    first_at = next(k for k, i in enumerate(found.items) if str(i.image).endswith("train/0.jpg"))
    answers = {k: Predicted(other.get("rest", SEEN)) for k in range(len(found.items))}
    answers[first_at] = Predicted(predicted)
    return found, label_hints(found, answers)


def only(hints: Hints) -> tuple[str, int | None]:
    [hint] = hints.found
    assert str(hint.item.image).endswith("train/0.jpg")
    return hint.kind, hint.line


def test_agreement_is_quiet(make_set: Maker) -> None:
    _, hints = hinted(make_set, SOUND, SEEN)
    assert hints.found == []
    assert (hints.images, hints.support, dict(hints.left_out)) == (22, 1.0, {})


def test_another_class_is_named_once(make_set: Maker) -> None:
    _, hints = hinted(make_set, "1 0.3 0.3 0.2 0.2\n1 0.7 0.7 0.2 0.2\n", SEEN)
    assert only(hints) == ("class", 1)
    assert hints.found[0].value == "label dog, predicted cat 0.90"


def test_an_object_without_a_label_is_named_with_its_box(make_set: Maker) -> None:
    _, hints = hinted(make_set, "0 0.3 0.3 0.2 0.2\n", SEEN)
    assert only(hints) == ("missing", None)
    assert hints.found[0].box == DOG


def test_a_background_image_with_a_confident_object_is_named(make_set: Maker) -> None:
    _, hints = hinted(make_set, "", [SEEN[0]])
    assert only(hints) == ("missing", None)


def test_a_box_beside_its_object_is_misplaced_and_nothing_else(make_set: Maker) -> None:
    _, hints = hinted(make_set, "0 0.37 0.3 0.2 0.2\n1 0.7 0.7 0.2 0.2\n", SEEN)
    assert only(hints) == ("misplaced", 1)


def test_a_box_that_nothing_supports_is_named(make_set: Maker) -> None:
    _, hints = hinted(make_set, SOUND + "1 0.2 0.8 0.1 0.1\n", SEEN)
    assert only(hints) == ("unsupported", 3)


def test_a_doubtful_prediction_contradicts_nothing(make_set: Maker) -> None:
    _, hints = hinted(make_set, "0 0.3 0.3 0.2 0.2\n", [SEEN[0], row(1, 0.3, DOG)])
    assert hints.found == []


def test_both_of_two_overlapping_objects_of_different_classes_are_right(make_set: Maker) -> None:
    near = (0.32, 0.3, 0.2, 0.2)
    labels = "0 0.3 0.3 0.2 0.2\n1 0.32 0.3 0.2 0.2\n"
    _, hints = hinted(make_set, labels, [row(0, 0.9, CAT), row(1, 0.9, near)])
    assert hints.found == []


def test_a_class_that_the_model_does_not_find_gets_no_hints(make_set: Maker) -> None:
    _, hints = hinted(make_set, "1 0.3 0.3 0.2 0.2\n1 0.7 0.7 0.2 0.2\n", [row(0, 0.9, CAT)], rest=[SEEN[0]])
    assert set(hints.left_out) == {1}
    assert [h.kind for h in hints.found] == ["class"]  # the cat is still believed; the dogs are not called unsupported


def test_the_worst_stand_first_and_reach_the_finding(make_set: Maker) -> None:
    found, hints = hinted(make_set, "1 0.3 0.3 0.2 0.2\n", SEEN)
    told = with_hints(found, hints).dataset
    places = told.faults["label_noise"].places
    assert [p.score for p in places] == sorted((p.score for p in places), reverse=True)
    assert {(p.file, p.line, p.kind) for p in places} == {
        ("labels/train/0.txt", 1, "class"),
        ("images/train/0.jpg", None, "missing"),
    }
    assert told.measures["hint_images"] == 22


def test_two_objects_without_label_in_one_image_are_two_hints(make_set: Maker) -> None:
    found, hints = hinted(make_set, "", SEEN)
    assert with_hints(found, hints).dataset.faults["label_noise"].count == 2


def test_a_folder_that_the_model_contradicts(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            for number in range(5):
                image = tmp_path / split / name / f"{number}.jpg"
                image.parent.mkdir(parents=True, exist_ok=True)
                image.write_bytes(b"")
    found = audit(resolve(str(tmp_path), "classify", cwd=tmp_path, datasets_dir=tmp_path))
    answers = {}
    for k, item in enumerate(found.items):
        c = int(item.image.parent.name == "dog") ^ (str(item.image).endswith("train/cat/3.jpg"))
        answers[k] = Predicted(probs={c: 0.95, 1 - c: 0.05})
    [hint] = label_hints(found, answers).found
    assert (hint.item.image.name, hint.kind, hint.value) == ("3.jpg", "class", "folder cat, predicted dog 0.95")


def test_classes_are_matched_by_name_not_by_number() -> None:
    assert class_map({"0": "dog", "1": "bird", "2": "cat"}, {0: "cat", 1: "dog"}) == ({0: 1, 2: 0}, ["bird"])


@pytest.mark.parametrize("place", ["ultralytics/weights/best.pt", "weights/best.pt", "best.pt", "weights/last.pt"])
def test_weights_are_found_in_runs_of_both_kinds(tmp_path: Path, place: str) -> None:
    weights = tmp_path / place
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(b"")
    assert find_weights(str(tmp_path)) == (weights, False)
    (tmp_path / "run.json").write_text("{}")
    assert find_weights(str(tmp_path)) == (weights, True)
    assert find_weights(str(weights)) == (weights, True)


def test_a_run_without_weights_says_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no best\.pt or last\.pt in ultralytics/weights"):
        find_weights(str(tmp_path))
    with pytest.raises(InputError, match="no such run"):
        find_weights(str(tmp_path / "nothing"))


def test_a_file_that_is_no_model_is_a_reason_not_a_crash(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "best.pt").write_bytes(b"no weights")
    assert main(["data", str(photos), "--no-cache", "--format", "json", "--with", str(tmp_path / "best.pt")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "best.pt can't be loaded" in document["hints"]["skipped"]
    assert "data.label_noise" not in {f["id"] for f in document["findings"]}
