"""Linear operators with adjoints. None is densified silently: only `dense()` does, when called."""

from __future__ import annotations

from abc import ABC, abstractmethod

from lgmdsl.arrays import Array, Matrix, SparseMatrix


class Operator(ABC):
    """A real P x n linear map."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """B x for x of shape (n,) or (n, k)."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """B'y for y of shape (P,) or (P, k)."""

    @abstractmethod
    def dense(self) -> Array:
        """The (P, n) array."""

    def sparse(self) -> SparseMatrix:
        """A csr array; operators that would only be sparse in name densify here, explicitly."""
        import scipy.sparse as sp

        return sp.csr_array(self.dense())

    @property
    def is_sparse(self) -> bool:
        """Whether `matrix()` is a csr array."""
        return False

    def matrix(self) -> Matrix:
        """The cheaper of the two explicit forms."""
        return self.sparse() if self.is_sparse else self.dense()
