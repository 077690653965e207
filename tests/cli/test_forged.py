"""Every forged field of a sidecar is found, also where its hash was recomputed."""

from __future__ import annotations

import json

import pytest

import stageguard as sg
from cli_runner import Runner, write_night
from stageguard.cli import main
from stageguard.formats.outputs import sidecar_sha256
from stageguard.runner.verify import verify_output
from stageguard.runner.verify_table import table_and_sidecar, verify_table

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
        found = table_and_sidecar(path)
        verification = verify_output(path) if found is None else verify_table(*found)
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
    found = table_and_sidecar(sidecar)
    verification = verify_output(sidecar) if found is None else verify_table(*found)
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
    "a number": lambda text: text.replace('"rem_latency_minutes": ', '"rem_latency_minutes": 1'),
    "measures of another kind": lambda text: sealed(text, {"measured": 7}),
    "a strength without its parts": lambda text: sealed(text, {"strength": {}}),
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
    assert "n1.hypnogram.json: was cut off or edited" in ran.err
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
        assert "was changed after it was written" in ran.err
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
    sidecar.write_text(sidecar.read_text().replace('"expected_minutes": ', '"expected_minutes":  '))
    assert "n1.hypnogram.json: is not what decode wrote" not in run("stats", out).out
    sidecar.write_text(sidecar.read_text().replace('"n_filled": 0', '"n_filled": 1'))
    assert "n1.hypnogram.json: is not what decode wrote" in run("stats", out).out
