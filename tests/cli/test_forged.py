"""Every forged field of a sidecar is found, also where its hash was recomputed."""

from __future__ import annotations

import json

import pytest

import stageguard as sg
from cli_runner import Runner, write_night
from messages import mentions
from stageguard.cli import main
from stageguard.formats.outputs import sidecar_sha256
from stageguard.runner.verify import verify_output

# Nothing derives who ran what; all of them are covered by the hash of the sidecar.
VERSIONS = {("provenance", name) for name in ("stageguard", "numpy", "python", "core")}
UNCHECKED = {"night": VERSIONS, "night of a folder": VERSIONS, "table": {("run", "stageguard")}}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The sidecars of a night, of a night in a folder that shares its profile, and of a table of nights."""
    folder = tmp_path_factory.mktemp("forged")
    (folder / "in").mkdir()
    nights = [write_night(folder / "in" / f"n{seed}.csv", hours=2, seed=seed) for seed in (1, 2)]
    rows = [f"{night.stem},{row}" for night in nights for row in night.read_text().split()[1:]]
    (folder / "all.csv").write_text("\n".join(["id,W,N1,N2,N3,R", *rows]) + "\n")
    profile = ("-p", "human-psg-5")
    for words in (
        (nights[0], *profile, "-o", folder / "one", "--svg", "--explain"),
        (folder / "in", *profile, "-o", folder / "many"),
        (folder / "all.csv", *profile, "-o", folder / "out.csv", "--explain"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["decode", *map(str, words)])
        assert not ended.value.code
    return {
        "night": folder / "one" / "n1.hypnogram.json",
        "night of a folder": folder / "many" / "n1.hypnogram.json",
        "table": folder / "out.csv.json",
    }


@pytest.fixture(params=UNCHECKED)
def sidecar(request, outputs):
    path = outputs[request.param]
    written = path.read_text()
    yield path
    path.write_text(written)


def verified(path):
    """The names of the checks that fail; an error that ends the verification fails as a whole."""
    try:
        verification = verify_output(path)
    except sg.StageGuardError as error:
        assert "\n" not in str(error)
        return {"error"}
    return {check.name for check in verification.checks if not check.ok}


def leaves(value, way=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield way
    for key, item in items:
        yield from leaves(item, (*way, key))


def forged(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def forge(content, way, remove=False):
    """A copy of a sidecar's content with one value changed, or removed."""
    content = json.loads(json.dumps(content))
    within = content
    for key in way[:-1]:
        within = within[key]
    if remove:
        del within[way[-1]]
    else:
        within[way[-1]] = forged(within[way[-1]])
    return content


def seal(path, content):
    """Write a sidecar with the hash that belongs to its content."""
    content["stageguard"]["sha256"] = sidecar_sha256(content)
    path.write_text(json.dumps(content))


def test_what_was_written_is_verified(sidecar):
    assert verified(sidecar) == set()


@pytest.mark.slow
@pytest.mark.parametrize("remove", [False, True])
def test_every_field_is_derived_again_or_said_not_to_be_checked(sidecar, outputs, remove):
    content = json.loads(sidecar.read_text())
    kind = next(name for name, path in outputs.items() if path == sidecar)
    passed = set()
    for way in leaves(content):
        if way == ("stageguard", "sha256"):
            continue
        seal(sidecar, forge(content, way, remove))
        if not verified(sidecar):
            passed.add(way[1:])
    assert passed <= UNCHECKED[kind]
    if not remove:
        assert passed == UNCHECKED[kind]


def test_what_cannot_be_derived_is_said_and_covered_by_the_hash(sidecar, outputs):
    kind = next(name for name, path in outputs.items() if path == sidecar)
    content = json.loads(sidecar.read_text())
    verification = verify_output(sidecar)
    assert {".".join(way) for way in UNCHECKED[kind]} <= set(verification.unchecked)
    for way in UNCHECKED[kind]:
        sidecar.write_text(json.dumps(forge(content, ("stageguard", *way))))
        assert "sidecar" in verified(sidecar)


def test_a_missing_hash_is_a_failure(sidecar):
    content = json.loads(sidecar.read_text())
    del content["stageguard"]["sha256"]
    sidecar.write_text(json.dumps(content))
    assert verified(sidecar) == {"sidecar"}


@pytest.mark.parametrize("what", ["more", "column"])
def test_added_fields_are_found(sidecar, what):
    content = json.loads(sidecar.read_text())
    (content if what == "column" else content["stageguard"])[what] = "added"
    seal(sidecar, content)
    assert verified(sidecar) == {"record"}


def parts(value, way=()):
    """The ways to all lists and dictionaries inside a value, also to empty ones."""
    if isinstance(value, dict | list):
        if way:
            yield way
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts(item, (*way, key))


def within(content, way):
    for key in way:
        content = content[key]
    return content


@pytest.mark.parametrize("how", ["removed", "the other container"])
def test_whole_parts_that_are_removed_or_turned_are_found(sidecar, how):
    content = json.loads(sidecar.read_text())
    passed = []
    for way in parts(content):
        is_optional = way[:2] == ("stageguard", "beside") and sidecar.name.endswith(".hypnogram.json")
        if "definition" in way[:-1] or is_optional:  # the profile's hash; files that need not be recorded
            continue
        copy = json.loads(json.dumps(content))
        outer, value = within(copy, way[:-1]), within(copy, way)
        if how == "removed":
            del outer[way[-1]]
        elif isinstance(value, list):
            outer[way[-1]] = {str(i): item for i, item in enumerate(value)}
        else:
            outer[way[-1]] = list(value.values())
        if "stageguard" in copy and isinstance(copy["stageguard"], dict):
            seal(sidecar, copy)
        else:
            sidecar.write_text(json.dumps(copy))
        if not verified(sidecar):
            passed.append(way)
    assert passed == []


def test_measures_and_joint_score_cannot_be_left_out_together(outputs):
    sidecar = outputs["night"]
    written = sidecar.read_text()
    content = json.loads(written)
    del content["stageguard"]["measured"], content["stageguard"]["joint_score"]
    seal(sidecar, content)
    assert verified(sidecar) == {"record"}
    sidecar.write_text(written)


@pytest.mark.parametrize("dotted", [False, True])
def test_a_copy_of_the_true_value_elsewhere_hides_no_forgery(sidecar, dotted):
    content = json.loads(sidecar.read_text())
    for name in content["stageguard"].keys() & {"methods", "n_changed", "assumptions", "review"}:
        copy = json.loads(json.dumps(content))
        copy[f"stageguard.{name}" if dotted else name] = copy["stageguard"][name]
        copy["stageguard"][name] = "forged"
        seal(sidecar, copy)
        assert verified(sidecar) == {"record"}, name


def version_of(record):
    return record["provenance" if "provenance" in record else "run"]


@pytest.mark.parametrize("forgery", [None, "removed", "a text"])
def test_a_forged_version_hides_no_other_forgery(sidecar, forgery):
    content = json.loads(sidecar.read_text())
    for name in ("assumptions", "review", "table", "n_changed", "methods", "measured"):
        if name not in content["stageguard"]:
            continue
        copy = json.loads(json.dumps(content))
        version_of(copy["stageguard"])["stageguard"] = "0.0.9"
        if forgery == "removed":
            del copy["stageguard"][name]
        else:
            copy["stageguard"][name] = forgery
        seal(sidecar, copy)
        assert verified(sidecar), name


def test_the_tables_beside_are_compared_whatever_version_is_recorded(outputs):
    for sidecar, beside in (
        (outputs["night"], outputs["night"].with_name("n1.changes.tsv")),
        (outputs["table"], outputs["table"].with_name("out.csv.nights.tsv")),
    ):
        written, table = sidecar.read_text(), beside.read_text()
        content = json.loads(written)
        version_of(content["stageguard"])["stageguard"] = "0.0.9"
        seal(sidecar, content)
        beside.write_text(table + "x\n")
        assert beside.name in verified(sidecar)
        beside.write_text(table)
        sidecar.write_text(written)


def test_the_verdict_tells_of_another_version(capsys, sidecar):
    content = json.loads(sidecar.read_text())
    version_of(content["stageguard"])["stageguard"] = "0.0.9"
    seal(sidecar, content)
    ran = Runner(capsys)("verify", sidecar)
    assert ran.code == 0
    assert f"verified; written by stageguard 0.0.9, compared by {sg.__version__}" in ran.out
    assert json.loads(Runner(capsys)("verify", sidecar, "--json").out)["other_version"] == "0.0.9"


@pytest.mark.parametrize("asked", [False, True])
def test_whether_changes_were_asked_for_is_checked_without_any_change(capsys, tmp_path, asked):
    rows = ["a,0.98,0.005,0.005,0.005,0.005"] * 120
    (tmp_path / "all.csv").write_text("\n".join(["id,W,N1,N2,N3,R", *rows]) + "\n")
    words = ("decode", tmp_path / "all.csv", "-p", "human-psg-5", "-o", tmp_path / "out.csv")
    assert Runner(capsys)(*words, *["--explain"] * asked).code == 0
    sidecar = tmp_path / "out.csv.json"
    assert verified(sidecar) == set()
    content = json.loads(sidecar.read_text())
    content["stageguard"]["run"]["explain"] = not asked
    seal(sidecar, content)
    assert verified(sidecar)


@pytest.mark.parametrize(
    "text", ["[]", "7", '{"stageguard": []}', '{"stageguard": {"layout": 1, "run": []}}']
)
def test_a_sidecar_of_another_kind_is_refused_in_plain_words(sidecar, text):
    sidecar.write_text(text)
    with pytest.raises(sg.StageGuardError) as caught:
        verify_output(sidecar)
    assert not any(word in str(caught.value) for word in ("indices", "object", "NoneType", "attribute"))


@pytest.fixture
def folder(tmp_path):
    """Two nights, decoded to a folder by the command that it returns with the folder."""
    for seed in (1, 2):
        write_night(tmp_path / f"n{seed}.csv", hours=1, seed=seed)
    words = ("decode", tmp_path / "n1.csv", tmp_path / "n2.csv", "-p", "human-psg-5", "-o", tmp_path / "out")
    return tmp_path / "out", words


DAMAGES = {
    "cut off": lambda text: text[: len(text) // 2],
    "not UTF-8": lambda text: text.replace("layout", "l\udcffyout"),
    "no record": lambda text: '{"stageguard": 7}',
    "no hash": lambda text: text.replace('"sha256": "' + json.loads(text)["stageguard"]["sha256"], '"x": "'),
    "a number": lambda text: text.replace('"n_epochs": ', '"n_epochs": 1'),
    "measures of another kind": lambda text: sealed(text, {"measured": 7}),
    "a strength without its parts": lambda text: sealed(text, {"strength": {}}),
    "an impossible count": lambda text: sealed(text, {"n_changed": -5}),
    "another count": lambda text: sealed(text, {"n_filled": json.loads(text)["stageguard"]["n_filled"] + 1}),
}


def sealed(text, changes):
    """The text of a sidecar with other values and the hash that belongs to them."""
    content = json.loads(text)
    content["stageguard"] |= changes
    content["stageguard"]["sha256"] = sidecar_sha256(content)
    return json.dumps(content)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_night_whose_sidecar_was_damaged_is_decoded_again(capsys, folder, damage):
    out, words = folder
    run = Runner(capsys)
    assert run(*words).code == 0
    table, sidecar = (out / "cohort.tsv").read_bytes(), out / "n1.hypnogram.json"
    written = sidecar.read_text()
    sidecar.write_bytes(damage(written).encode(errors="surrogateescape"))
    assert sidecar.read_bytes() != written.encode()
    ran = run(*words)
    assert (ran.code, ran.err) == (0, "")
    assert "2 nights: 1 done before, 1 decoded." in ran.out
    assert sidecar.read_text() == written
    assert (out / "cohort.tsv").read_bytes() == table


def test_an_edited_table_with_a_damaged_sidecar_is_kept_and_fails_alone(capsys, folder):
    out, words = folder
    run = Runner(capsys)
    assert run(*words).code == 0
    table, sidecar = out / "n1.hypnogram.tsv", out / "n1.hypnogram.json"
    table.write_text(table.read_text().replace("\tN2\t2\t", "\tN3\t3\t"))
    sidecar.write_text("{")
    edited = table.read_bytes()
    ran = run(*words)
    assert ran.code == 1
    assert "2 nights: 1 done before, 0 decoded, 1 failed." in ran.out
    assert mentions(ran.err, "n1.hypnogram.json", "off or edited")
    assert table.read_bytes() == edited


def test_forged_values_of_a_table_are_not_taken_for_those_of_an_earlier_run(capsys, tmp_path):
    rows = write_night(tmp_path / "n.csv", hours=1).read_text().split()[1:]
    (tmp_path / "all.csv").write_text("\n".join(["id,W,N1,N2,N3,R", *(f"a,{row}" for row in rows)]) + "\n")
    words = ("decode", tmp_path / "all.csv", "-p", "human-psg-5", "-o", tmp_path / "out.csv")
    run = Runner(capsys)
    assert run(*words).code == 0
    assert run(*words).code == 0
    nights, sidecar = tmp_path / "out.csv.nights.tsv", tmp_path / "out.csv.json"
    for path, old, new in ((nights, "\t120\t", "\t121\t"), (sidecar, '"n_nights": 1', '"n_nights": 9')):
        written = path.read_text()
        assert old in written
        path.write_text(written.replace(old, new))
        ran = run(*words)
        assert ran.code == 1
        assert mentions(ran.err, "changed", "it was written")
        path.write_text(written)


def test_lights_and_a_start_from_a_list_are_derived_again(capsys, tmp_path):
    night = write_night(tmp_path / "n1.csv", hours=3)
    (tmp_path / "list.tsv").write_text(
        f"probabilities\tstart\tlights_off\tlights_on\n{night}\t2024-05-01T22:30:00\t22:45\t2024-05-02T01:00:00\n"
    )
    run = Runner(capsys)
    ran = run("decode", "--list", tmp_path / "list.tsv", "-p", "human-psg-5", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert verified(tmp_path / "out" / "n1.hypnogram.json") == set()


def test_statistics_of_a_forged_sidecar_are_warned_about(capsys, folder):
    out, words = folder
    run = Runner(capsys)
    assert run(*words).code == 0
    sidecar = out / "n1.hypnogram.json"
    sidecar.write_text(sidecar.read_text().replace('"n_filled": ', '"n_filled":  '))
    assert "n1.hypnogram.json: is not what decode wrote" not in run("stats", out).out
    sidecar.write_text(sidecar.read_text().replace('"n_filled":  0', '"n_filled":  1'))
    assert mentions(run("stats", out).out, "n1.hypnogram.json", "what decode wrote")
