"""A correlated topic model (Khan 2012, section 1.2.5) of SciPy's documentation of its functions,
next to scikit-learn's latent Dirichlet allocation: perplexity of held-out words, topics,
correlations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from tests.realdata.docstrings import MODULES, Texts, texts
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
TOPICS = (5, 10, 20)
SHOWN = 10  # topics of the second table and of the graph
HELD = 0.2  # of each text's words
LEAST = 0.2  # of a correlation that is drawn


def split(counts: Array) -> tuple[Array, Array]:
    """The words of each text, and those of them that are held out."""
    rng = np.random.default_rng(0)
    held = rng.binomial(counts.astype(np.int64), HELD).astype(float)
    held[:, (counts - held).sum(axis=0) == 0.0] = 0.0  # a word must be seen somewhere
    return counts - held, held


def perplexity(probability: Array, held: Array) -> float:
    """exp of minus the mean log probability of a held-out word."""
    return float(np.exp(-special.xlogy(held, probability).sum() / held.sum()))


def correlated(text: str, topics: int, seen: Array) -> tuple[Fit, Array, float]:
    """The whole example, everything learned; P(word) of each text; CPU seconds."""
    model = text.replace("topic = 20", f"topic = {topics}")
    model += "\nreport share[doc, topic] = softmax(eta, topic)\n"
    began = time.process_time()
    fit = lgm.fit(lgm.loads(model), {"n": seen}, tol=1e-5)
    seconds = time.process_time() - began
    return fit, fit.mean("share").values @ fit.mean("beta").values, seconds


def dirichlet(topics: int, seen: Array, prior: float | None) -> tuple[Array, float]:
    """scikit-learn's variational LDA; `prior`: of words in topics (None: its default, 1/K)."""
    from sklearn.decomposition import LatentDirichletAllocation

    began = time.process_time()
    lda = LatentDirichletAllocation(topics, topic_word_prior=prior, max_iter=200, random_state=0)
    share = lda.fit_transform(seen)
    words = lda.components_ / lda.components_.sum(axis=1, keepdims=True)
    return share @ words, time.process_time() - began


def centred(s: Array) -> Array:
    """Correlations of topics about their mean, all that a softmax knows."""
    away = np.eye(len(s)) - 1.0 / len(s)
    c = away @ s @ away
    return np.asarray(c / np.sqrt(np.outer(c.diagonal(), c.diagonal())))


def leading(fit: Fit, corpus: Texts, count: int) -> list[list[str]]:
    """The words of each topic that are likeliest there beside all topics."""
    beta = fit.mean("beta").values
    lift = beta * np.log(beta / np.exp(np.log(beta).mean(axis=0)))
    return [[corpus.words[w] for w in np.argsort(-row)[:count]] for row in lift]


def of_modules(fit: Fit, corpus: Texts) -> tuple[Array, list[str]]:
    """The mean share of each topic in the texts of each module, (M, K); the modules."""
    share = fit.mean("share").values
    names = list(dict.fromkeys(corpus.modules))
    at = np.array(corpus.modules)
    return np.array([share[at == m].mean(axis=0) for m in names]), names


def draw(axes: Any, fit: Fit, corpus: Texts) -> None:
    """Topics as nodes; correlations that are not small as edges."""
    import networkx as nx

    r, heads = centred(fit.theta["S"]), leading(fit, corpus, 3)
    graph: Any = nx.Graph()
    graph.add_nodes_from(range(len(r)))
    for i, j in np.argwhere(np.triu(np.abs(r) > LEAST, 1)):
        graph.add_edge(int(i), int(j), r=r[i, j])
    pull = nx.Graph([(i, j, {"weight": 1.0 + r[i, j]}) for i in range(len(r)) for j in range(i)])
    place = nx.spring_layout(pull, seed=2, weight="weight", k=1.2, iterations=500)
    for i, j, d in graph.edges(data=True):
        (a, b), (c, e) = place[i], place[j]
        colour = COLOURS[0] if d["r"] > 0 else COLOURS[1]
        axes.plot([a, c], [b, e], color=colour, linewidth=5.0 * abs(d["r"]), alpha=0.5, zorder=1)
    box = {"facecolor": "white", "edgecolor": "0.6", "boxstyle": "round,pad=0.2"}
    for k, words in enumerate(heads):
        told = "\n".join(words)
        label = axes.text(*place[k], told, ha="center", va="center", fontsize=7, bbox=box)
        label.set_in_layout(False)
    axes.margins(0.15)
    axes.set_axis_off()


def test_topics_of_documentation(shared: Path) -> None:
    corpus = texts(MODULES, 25, rare=10, common=0.3)
    if len(corpus.counts) < 200:
        pytest.skip("SciPy is installed without its docstrings")
    text = (shared / "examples" / "11_ctm.lgm").read_text(encoding="utf-8")
    seen, held = split(corpus.counts)
    rows: list[list[object]] = []
    unigram = np.tile(seen.sum(axis=0) / seen.sum(), (len(seen), 1))
    fits: dict[int, Fit] = {}
    for k in TOPICS:
        fit, p, seconds = correlated(text, k, seen)
        assert fit.learning is not None
        last = fit.learning.steps[-1]
        fits[k] = fit
        default, sparse = (dirichlet(k, seen, prior) for prior in (None, 0.1))
        rows.append([
            k, perplexity(p, held), perplexity(default[0], held), perplexity(sparse[0], held),
            fit.log_evidence, fit.status.name, last.step, last.calls, seconds, default[1],
        ])  # fmt: skip
        head = ["topics", "correlated", "Dirichlet", "Dirichlet, prior 0.1", "log evidence",
                "status", "steps", "fits", "CPU seconds", "Dirichlet's"]  # fmt: skip
        table(FOLDER, head, rows, digits=5)
    share, modules = of_modules(fits[SHOWN], corpus)
    heads = leading(fits[SHOWN], corpus, 8)
    table(
        FOLDER,
        ["topic", "words", "most in", "share there", "share elsewhere"],
        [
            [
                i + 1,
                " ".join(w),
                modules[s.argmax()],
                s.max(),
                np.delete(s, s.argmax()).mean().item(),
            ]
            for i, (w, s) in enumerate(zip(heads, share.T, strict=True))
        ],
        name="topics",
        digits=2,
    )
    with figure(FOLDER, 8.4, 4.0) as picture:
        left, right = picture.subplots(1, 2, width_ratios=[1, 2])
        for column, label in ((1, "correlated"), (2, "Dirichlet"), (3, "Dirichlet, 0.1")):
            left.plot(TOPICS, [r[column] for r in rows], "o-", label=label)
        left.set(xlabel="topics", ylabel="perplexity of held-out words", xticks=TOPICS)
        left.legend()
        draw(right, fits[SHOWN], corpus)
    base = perplexity(unigram, held)
    print(f"unigram {base:.1f}; {corpus.counts.shape}, {corpus.counts.sum():.0f} words")
    for row in rows:
        assert isinstance(row[1], float) and row[1] < 0.7 * base
