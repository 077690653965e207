from __future__ import annotations

import pytest

from documents import FULL, profile_of
from messages import mentions
from stageguard.errors import OutputExistsError, ProfileError
from stageguard.profile import profile as profile_module
from stageguard.profile.profile import Profile, profiles

KEY = "after a key in a key/value pair"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Stand in for the folder of built-in profiles."""
    monkeypatch.setattr(profile_module, "FOLDER", tmp_path)
    profile_module._built_in.cache_clear()
    for name in ("human-psg-5", "human-psg-3", "mouse"):
        profile_of(name=name).save(tmp_path / f"{name}.toml")
    yield tmp_path
    profile_module._built_in.cache_clear()


def test_built_in_profiles_are_listed_in_order(shelf):
    assert profiles() == ["human-psg-3", "human-psg-5", "mouse"]


def test_unknown_profile_suggests_the_nearest(shelf):
    with pytest.raises(ProfileError) as caught:
        Profile.load("human-psg5")
    assert mentions(str(caught.value), "'human-psg5'", "'human-psg-5'")


def test_file_is_found_by_path_with_or_without_suffix(tmp_path):
    for name in ("own.toml", "own"):
        profile_of().save(tmp_path / name)
        assert Profile.load(tmp_path / name) == Profile.load(str(tmp_path / name)) == profile_of()


def test_file_with_byte_order_mark_and_windows_newlines_is_read(tmp_path):
    profile_of().save(tmp_path / "own.toml")
    text = (tmp_path / "own.toml").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "own.toml").write_bytes(b"\xef\xbb\xbf" + text)
    assert Profile.load(tmp_path / "own.toml") == profile_of()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, expected a profile in TOML."),
        (b" \n", "is empty, expected a profile in TOML."),
        (b"name = \n", "not valid TOML: Invalid value (at line 1, column 8)."),
        (b'name = "a"\nname = "b"\n', "not valid TOML: Cannot overwrite a value (at line 2, column 11)."),
        (b"W,N,R\n0.1,0.2,0.7\n", f"not valid TOML: Expected '=' {KEY} (at line 1, column 2)."),
        (
            b"\x89PNG\r\n",
            "not valid TOML: 'utf-8' codec can't decode byte 0x89 in position 0: invalid start byte.",
        ),
        (b"name = 'x'", "key 'scheme' (or 'stages') is missing."),
        (b"nam = 'x'", "unknown key 'nam' in a profile. Did you mean 'name'?"),
    ],
)
def test_bad_file_is_named_with_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError) as caught:
        Profile.load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(ProfileError) as caught:
        Profile.load(tmp_path / "no.toml")
    expected = "no such file. Give a built-in name or the path of a .toml file."
    assert str(caught.value) == f"{tmp_path / 'no.toml'}: {expected}"
    with pytest.raises(ProfileError) as caught:
        Profile.load(tmp_path)
    assert mentions(str(caught.value), tmp_path, "cannot be read: Is a directory")


def test_save_does_not_overwrite_unless_told(tmp_path):
    path = tmp_path / "own.toml"
    profile_of().save(path)
    with pytest.raises(OutputExistsError, match="exists already"):
        Profile.from_dict(FULL).save(path)
    assert Profile.load(path) == profile_of()
    Profile.from_dict(FULL).save(path, overwrite=True)
    assert Profile.load(path) == Profile.from_dict(FULL)
