"""The change-point posterior against enumeration of all segmentations and against an independent library."""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest

from flcontrib_core.detection.change_points import (
    ChangePointSettings,
    ChangeSeries,
    mass_in_window,
    read_change_points,
    ruptures_starts,
)
from flcontrib_core.detection.segmentation import (
    _LIKELIHOODS,
    UNIT_MODEL,
    LengthPrior,
    SegmentLikelihood,
    SegmentModel,
    _length_prior,
    level_above,
    segment_posterior,
)
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory, cell_states


def history_of(values: np.ndarray) -> ContributionHistory:
    rows, clients = values.shape
    return ContributionHistory(
        run_digest="d",
        run_name="r",
        client_ids=tuple(f"c{i}" for i in range(clients)),
        data_sizes=(1,) * clients,
        utilities=("loss",),
        values=values[:, :, None],
        standard_errors=np.zeros((rows, clients, 1)),
        state=cell_states(np.ones((rows, clients), dtype=bool), ~np.isnan(values)[:, :, None], 1),
        increments=np.nansum(values, axis=1)[:, None],
        server_share=np.zeros((rows, 1)),
        evaluations=np.zeros(rows, np.int64),
        estimator=("exact",) * rows,
        lower_is_better=frozenset({"loss"}),
    )


INCREMENTS = ChangePointSettings(ChangeSeries.INCREMENTS)
CUMULATIVE = ChangePointSettings(ChangeSeries.CUMULATIVE)


@pytest.mark.parametrize("likelihood", list(SegmentLikelihood))
@pytest.mark.parametrize("prior", list(LengthPrior))
@pytest.mark.parametrize("expected", [1.0, 0.3])
def test_posterior_equals_the_enumeration_of_all_segmentations(likelihood, prior, expected):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, 4), rng.normal(2, 1, 5)])
    n = len(x)
    model = SegmentModel(likelihood, prior, standardise=False, changes_expected=expected, shape=2.0, precision=0.5)
    segment = _LIKELIHOODS[likelihood](x, model)
    log_g, survival = _length_prior(model, n)
    mass, starting, spanning = [], np.zeros(n), np.zeros((n, n))
    best: tuple[float, tuple[int, ...]] = (-np.inf, ())
    several = 0.0  # of at least one start among the observations 3..5
    for changes in range(n):
        for starts in combinations(range(1, n), changes):
            edges = [0, *starts, n]
            lp = sum(segment[a, b - 1] for a, b in pairwise(edges))
            lp += sum(log_g[b - a] for a, b in pairwise(edges[:-1]))
            lp += survival[edges[-1] - edges[-2] - 1]
            mass.append(lp)
            starting[list(starts)] += np.exp(lp)
            for a, b in pairwise(edges):
                spanning[a, b - 1] += np.exp(lp)
            several += np.exp(lp) * any(3 <= s <= 5 for s in starts)
            if lp > best[0]:
                best = (lp, (0, *starts))
    total = np.exp(mass).sum()
    got = segment_posterior(x, model)
    np.testing.assert_allclose(got.start_probability, starting / total, atol=1e-12)
    np.testing.assert_allclose(got.segment_probability, spanning / total, atol=1e-12)
    assert got.change_between(3, 5) == pytest.approx(several / total, abs=1e-12)
    assert got.map_starts == best[1]
    assert got.log_evidence == pytest.approx(np.log(total), abs=1e-10)
    everywhere = got.inside(np.ones((n, n)))
    np.testing.assert_allclose(everywhere, 1.0, atol=1e-12)


def test_a_sum_of_probabilities_is_not_the_probability_of_a_change():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 10), rng.normal(7, 1, 3), rng.normal(0, 1, 10)])
    posterior = segment_posterior(x, UNIT_MODEL)
    summed = posterior.start_probability[8:16].sum()
    assert summed > 1.0
    assert 0.5 < posterior.change_between(8, 15) <= 1.0


def test_the_level_of_a_segment_is_a_student_t():
    from scipy import stats

    x = np.array([0.2, -0.4, 0.1, 4.0, 5.0, 4.4])
    model = SegmentModel(standardise=False, shape=3.0, rate=2.0, precision=0.2)
    posterior = segment_posterior(x, model)
    assert posterior.segment_probability[3, 5] > 0.01
    data = x[3:]
    rng = np.random.default_rng(0)
    alpha, kappa = 3.0 + 1.5, 3.2
    beta = 2.0 + 0.5 * ((data - data.mean()) ** 2).sum() + 0.5 * 0.2 * 3 * data.mean() ** 2 / 3.2
    noise = stats.gamma(alpha, scale=1 / beta).rvs(200_000, random_state=rng)
    mean = rng.normal(3 * data.mean() / kappa, 1 / np.sqrt(kappa * noise))
    assert level_above(x, 3.5, posterior, model)[3, 5] == pytest.approx((mean > 3.5).mean(), abs=0.01)


def test_a_window_relative_to_the_others_is_marked_at_both_ends_and_inside():
    from tests.detection.made_histories import made_history

    points = read_change_points(made_history(epochs=30, poisoned=[(1, 12, 20)], shift=10))
    assert points.series == "solo-margin"
    assert points.probability[11:14, 1].sum() > 0.8
    assert points.probability[20:23, 1].sum() > 0.8
    assert np.nanmin(points.inside[13:20, 1]) > 0.9
    assert np.nanmax(points.inside[[5, 8, 25, 28], 1]) < 0.1
    assert np.nanmax(np.delete(points.inside, 1, axis=1)) < 0.5
    (first, last, p), (again, end, q) = points.changes["client-01"]
    assert first <= 12 <= last
    assert again <= 21 <= end
    assert min(p, q) > 0.8
    assert set(points.second_opinion["client-01"]) & {11, 12, 13}


def test_a_window_over_most_of_a_run_is_the_deviating_part():
    from tests.detection.made_histories import made_history

    points = read_change_points(made_history(epochs=40, poisoned=[(1, 10, 33)]))
    assert np.nanmedian(points.inside[10:34, 1]) > 0.9
    assert np.nanmax(points.inside[[4, 6, 38, 40], 1]) < 0.2


def test_a_table_is_read_by_its_values_and_asked_for_a_margin_says_so():
    from tests.detection.made_histories import made_history

    table = made_history(with_channels=False, poisoned=[(1, 12, 20)])
    assert read_change_points(table).series == "relative-value"
    with pytest.raises(SettingsError, match="no solo margin"):
        read_change_points(table, ChangePointSettings(ChangeSeries.SOLO_MARGIN))


@pytest.mark.filterwarnings("ignore")
def test_posterior_equals_the_library_of_others():
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("bayesian_changepoint_detection")
    from bayesian_changepoint_detection.offline_likelihoods import StudentT

    rng = np.random.default_rng(5)
    for n in (12, 40, 75):
        x = rng.normal(size=n).cumsum()
        x = (x - x.mean()) / x.std()
        _, _, table = library.offline_changepoint_detection(
            torch.tensor(x), partial(library.const_prior, p=1 / (n + 1)), StudentT()
        )
        theirs = np.concatenate([[0.0], torch.exp(table).sum(0).numpy()])
        np.testing.assert_allclose(segment_posterior(x).start_probability, theirs, atol=1e-6)


def test_a_clear_step_is_found_where_it_is():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0, 0.3, 40), rng.normal(5, 0.3, 40)])
    for likelihood in SegmentLikelihood:
        found = segment_posterior(x, SegmentModel(likelihood))
        assert found.start_probability[40] > 0.9
        assert 40 in found.map_starts
    assert 40 in ruptures_starts(x)


def test_missing_epochs_are_missing_and_never_zero():
    rng = np.random.default_rng(2)
    values = rng.normal(-0.1, 0.01, (31, 2))
    values[12:20, 1] += 0.3
    values[15, :] = np.nan
    points = read_change_points(history_of(values), INCREMENTS)
    assert np.isnan(points.probability[15]).all()
    assert points.probability[0].tolist() == [0, 0]
    assert points.probability[12, 1] > 0.8
    assert points.probability[20, 1] > 0.8
    assert np.nansum(points.probability[:, 0]) < np.nansum(points.probability[:, 1])
    assert any(a == 12 for a, _ in points.segments["c1"])
    assert 12 in points.second_opinion["c1"]


def test_mass_in_window_is_a_share_of_the_mass():
    values = np.full((31, 1), -0.1) + np.random.default_rng(0).normal(0, 0.005, (31, 1))
    values[12:20] += 0.4
    points = read_change_points(history_of(values), INCREMENTS)
    assert 0.3 < mass_in_window(points, "c0", (12, 19)) < 0.7  # the return to normal starts at 20
    assert mass_in_window(points, "c0", (12, 20)) > 0.9


def test_short_and_constant_series_have_no_change():
    for x in (np.array([]), np.array([1.0]), np.ones(20)):
        assert (segment_posterior(x).start_probability < 0.5).all()
    with pytest.raises(SettingsError, match="not assessed"):
        read_change_points(history_of(np.ones((4, 1))), ChangePointSettings(utility="f1"))


def test_scaling_the_utility_or_reordering_clients_changes_nothing():
    values = np.random.default_rng(7).normal(size=(26, 3)).cumsum(axis=0)
    plain = read_change_points(history_of(values), CUMULATIVE).probability
    np.testing.assert_allclose(read_change_points(history_of(values * 1e-4), CUMULATIVE).probability, plain, atol=1e-9)
    turned = read_change_points(history_of(values[:, ::-1].copy()), CUMULATIVE).probability
    np.testing.assert_allclose(turned, plain[:, ::-1], atol=1e-12)
