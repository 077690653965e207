from __future__ import annotations

import pytest

from stageguard import errors


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [
        (errors.ProfileError, ValueError),
        (errors.InputError, ValueError),
        (errors.PinError, errors.InputError),
        (errors.CohortError, ValueError),
        (errors.FileFormatError, ValueError),
        (errors.OutputError, OSError),
        (errors.OutputExistsError, FileExistsError),
        (errors.OutputExistsError, errors.OutputError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_each_error_is_ours_and_the_builtin_one_expects(ours, builtin):
    with pytest.raises(builtin) as caught:
        raise ours("one line")
    assert isinstance(caught.value, errors.StageGuardError)
    assert str(caught.value) == "one line"
