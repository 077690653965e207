"""What a learning curve says is what its points show."""

import pytest

from messages import mentions
from stageguard.fitting.learning_curve import CurvePoint, LearningCurve

UNKNOWN = "fewer were not tried, so that nothing is known of more."
UNSTEADY = "How many are enough cannot be told."


def said(*gains):
    points = (CurvePoint(2 * i, 4.0 * i, 0.0, gain, 0.01) for i, gain in enumerate(gains, start=1))
    return str(LearningCurve(tuple(points)))


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        (
            (0.3,),
            (4, 2, "+0.300", UNKNOWN),
        ),
        (
            (-0.1,),
            (4, 2, UNKNOWN),
        ),
        (
            (0.5, 0.3, 0.4),
            ("+0.500", 4, "+0.400", 12, 6, UNSTEADY),
        ),
        (
            (0.1, 0.0, -0.01),
            ("+0.100", 4, "-0.010", 12, 6, UNSTEADY),
        ),
        (
            (0.1, 0.3),
            ("grows", 8, 4),
        ),
        (
            (0.1, 0.1, 0.3),
            ("grows", 12, 6, "from 10 nights", "needs no scoring", "not known"),
        ),
        (
            (-0.1, 0.0),
            (8, 4, "will"),
        ),
        (
            (0.3, 0.3),
            (4, 2, "+0.300", 8, 4, "+0.300"),
        ),
    ],
)
def test_the_points_are_not_made_to_say_more_than_they_do(gains, words):
    assert mentions(said(*gains), *words)
