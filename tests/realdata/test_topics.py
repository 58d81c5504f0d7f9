"""Topics of texts that a dependency bundles, beside scikit-learn's latent Dirichlet allocation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array

from .learned import SUBJECTS, learned_text, subjects


def perplexity(probability: Array, held: Array) -> float:
    return float(np.exp(-special.xlogy(held, probability).sum() / held.sum()))


@pytest.mark.thorough
@pytest.mark.slow
def test_topics_are_modules_and_foretell_words() -> None:
    """A fifth of each text's words are held out; its other words tell of them what latent Dirichlet
    allocation tells, and texts of one module are of the same topics."""
    corpus = subjects()
    counts = corpus.counts.astype(np.int64)
    held = np.random.default_rng(0).binomial(counts, 0.2).astype(float)
    held[:, (counts - held).sum(axis=0) == 0.0] = 0.0
    seen = counts - held
    fit = lgm.fit(lgm.loads(learned_text("docstrings_topics")), {"n": seen}, tol=1e-4)
    assert fit.converged and fit.hyper == "em"
    share, beta = fit.mean("share").values, fit.mean("beta").values
    found = perplexity(share @ beta, held)
    alone = perplexity(np.tile(seen.sum(axis=0) / seen.sum(), (len(seen), 1)), held)
    assert found < 0.7 * alone
    peer = pytest.importorskip("sklearn.decomposition").LatentDirichletAllocation(
        4, topic_word_prior=0.1, max_iter=100, random_state=0
    )
    of_texts = peer.fit_transform(seen)
    words = peer.components_ / peer.components_.sum(axis=1, keepdims=True)
    assert found < 1.05 * perplexity(of_texts @ words, held)
    module = np.array([SUBJECTS.index(m) for m in corpus.modules])
    same = module[:, None] == module
    alike = share @ share.T  # that two words are of one topic
    np.fill_diagonal(same, False)
    assert alike[same].mean() > 2.0 * alike[module[:, None] != module].mean()
