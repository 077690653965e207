"""What a learning curve says is what its points show."""

import pytest

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
            f"4 scored nights of 2 subjects gain +0.300; {UNKNOWN}",
        ),
        (
            (-0.1,),
            f"4 scored nights of 2 subjects gain nothing; {UNKNOWN}",
        ),
        (
            (0.5, 0.3, 0.4),
            "The gain goes up and down: +0.500 with 4 scored nights, +0.400 with 12 scored nights of 6 "
            f"subjects. {UNSTEADY}",
        ),
        (
            (0.1, 0.0, -0.01),
            "The gain goes up and down: +0.100 with 4 scored nights, -0.010 with 12 scored nights of 6 "
            f"subjects. {UNSTEADY}",
        ),
        (
            (0.1, 0.3),
            "The gain still grows at 8 scored nights of 4 subjects: more scored nights would help.",
        ),
        (
            (-0.1, 0.0),
            "Nothing is gained with up to 8 scored nights of 4 subjects: more of the same will hardly help.",
        ),
        (
            (0.3, 0.3),
            "About 4 scored nights of 2 subjects are enough: they gain +0.300, 8 scored nights of 4 subjects "
            "+0.300.",
        ),
    ],
)
def test_the_points_are_not_made_to_say_more_than_they_do(gains, words):
    assert said(*gains) == words
