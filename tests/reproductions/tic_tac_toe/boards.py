"""The endgame boards of tic-tac-toe, a graphical model of them, and splits with holes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array, BoolArray, IntArray

X, O, BLANK = 0, 1, 2
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
SHARE = 0.8  # of the boards to learn from
HOLES = 0.2  # of the entries of the others

# The thesis's covariance of all predictors is LL' here, offsets its mean; the last mark is the
# softmax's reference. The third mark of a square and the class are not needed twice: 19 predictors.
TEXT = """lgm 1
index obs
index square = 9
index mark = 3
index cut = head(mark)
index factor = 19
data y[obs, square] : mark?
data won[obs] : binary?
hyper c[square, cut] : real ~ normal(sd = 5)
hyper w : real ~ normal(sd = 5)
hyper L[square, cut, factor] : real ~ normal(sd = 3)
hyper l[factor] : real ~ normal(sd = 3)
latent u[obs, factor] ~ normal(sd = 1)
let eta[obs, square, cut] = c + L @ u
let win[obs] = w + l @ u
observe y ~ categorical({link} = eta)
observe won ~ bernoulli(logit = win)
"""


def boards() -> tuple[IntArray, IntArray]:
    """(958, 9) marks at the end of every game that x begins, each board once; (958,) whether x
    has three in a row."""
    found: set[tuple[int, ...]] = set()

    def play(board: tuple[int, ...], player: int) -> None:
        if winner(board) is not None or BLANK not in board:
            found.add(board)
            return
        for k in range(9):
            if board[k] == BLANK:
                play((*board[:k], player, *board[k + 1 :]), O if player == X else X)

    play((BLANK,) * 9, X)
    ordered = sorted(found)
    return np.array(ordered), np.array([winner(b) == X for b in ordered], dtype=np.int64)


def winner(board: tuple[int, ...]) -> int | None:
    for a, b, c in LINES:
        if board[a] != BLANK and board[a] == board[b] == board[c]:
            return board[a]
    return None


@dataclass(frozen=True)
class Split:
    """Learning and test boards, and which test entries are held out: (M, 9) and (M,)."""

    y: IntArray
    won: IntArray
    new_y: IntArray
    new_won: IntArray
    out_y: BoolArray
    out_won: BoolArray

    @property
    def data(self) -> dict[str, object]:
        return {"y": self.y, "won": self.won}

    @property
    def holed(self) -> dict[str, object]:
        """The test boards, -1 and NaN where an entry is held out."""
        return {
            "y": np.where(self.out_y, -1, self.new_y),
            "won": np.where(self.out_won, np.nan, self.new_won),
        }


def split(number: int) -> Split:
    rng = np.random.default_rng(number)
    y, won = boards()
    order = rng.permutation(len(y))
    learn, test = np.split(order, [round(SHARE * len(y))])
    out = rng.random((len(test), 10)) < HOLES
    return Split(y[learn], won[learn], y[test], won[test], out[:, :9], out[:, 9])


def model(link: str) -> lgm.Model:
    return lgm.loads(TEXT.format(link=link))


def bits(given: Split, marks: Array, won: Array) -> float:
    """Mean of -log2 p of the entries held out; `marks` (M, 9, 3), `won` (M,): probabilities."""
    own = np.take_along_axis(marks, given.new_y[..., None], axis=-1)[..., 0][given.out_y]
    both = np.where(given.new_won == 1, won, 1.0 - won)[given.out_won]
    return float(-np.log2(np.concatenate([own, both])).mean())
