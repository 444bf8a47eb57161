"""The change-point posterior against enumeration of all segmentations and against an independent library."""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest

from flcontrib_core.detection.change_points import (
    _LIKELIHOODS,
    LengthPrior,
    SegmentLikelihood,
    _length_prior,
    change_points,
    mass_in_window,
    ruptures_starts,
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


@pytest.mark.parametrize("likelihood", list(SegmentLikelihood))
@pytest.mark.parametrize("prior", list(LengthPrior))
def test_posterior_equals_the_enumeration_of_all_segmentations(likelihood, prior):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, 4), rng.normal(2, 1, 5)])
    n = len(x)
    segment = _LIKELIHOODS[likelihood](x)
    log_g, survival = _length_prior(prior, n)
    mass, weight_of_start, best = [], np.zeros(n), (-np.inf, ())
    for changes in range(n):
        for starts in combinations(range(1, n), changes):
            edges = [0, *starts, n]
            lp = sum(segment[a, b - 1] for a, b in pairwise(edges))
            lp += sum(log_g[b - a] for a, b in pairwise(edges[:-1]))
            lp += survival[edges[-1] - edges[-2] - 1]
            mass.append(lp)
            weight_of_start[list(starts)] += np.exp(lp)
            if lp > best[0]:
                best = (lp, (0, *starts))
    total = np.exp(mass).sum()
    got = segment_posterior(x, likelihood, prior, standardise=False)
    np.testing.assert_allclose(got.start_probability, weight_of_start / total, atol=1e-12)
    assert got.map_starts == best[1]
    assert got.log_evidence == pytest.approx(np.log(total), abs=1e-10)


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
        found = segment_posterior(x, likelihood)
        assert found.start_probability[40] > 0.9
        assert 40 in found.map_starts
    assert 40 in ruptures_starts(x)


def test_missing_epochs_are_missing_and_never_zero():
    rng = np.random.default_rng(2)
    values = rng.normal(-0.1, 0.01, (31, 2))
    values[12:20, 1] += 0.3
    values[15, :] = np.nan
    points = change_points(history_of(values), series="incremental", second_opinion=True)
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
    points = change_points(history_of(values), series="incremental")
    assert 0.3 < mass_in_window(points, "c0", (12, 19)) < 0.7  # the return to normal starts at 20
    assert mass_in_window(points, "c0", (12, 20)) > 0.9


def test_short_and_constant_series_have_no_change():
    for x in (np.array([]), np.array([1.0]), np.ones(20)):
        assert (segment_posterior(x).start_probability < 0.5).all()
    with pytest.raises(SettingsError, match="cumulative"):
        change_points(history_of(np.ones((4, 1))), series="weekly")
    with pytest.raises(SettingsError, match="not assessed"):
        change_points(history_of(np.ones((4, 1))), utility="f1")


def test_scaling_the_utility_or_reordering_clients_changes_nothing():
    values = np.random.default_rng(7).normal(size=(26, 3)).cumsum(axis=0)
    plain = change_points(history_of(values)).probability
    np.testing.assert_allclose(change_points(history_of(values * 1e-4)).probability, plain, atol=1e-9)
    turned = change_points(history_of(values[:, ::-1].copy())).probability
    np.testing.assert_allclose(turned, plain[:, ::-1], atol=1e-12)
